"""Answers of a Prometheus server, made from the metrics of pretended engines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.operator.metrics.text import EngineText

TARGET = {"namespace": "d", "job": "engines", "instance": "10.0.0.1:8001"}


def series(text: EngineText, at_s: float, **labels: str) -> list[dict[str, Any]]:
    """Every sample of one scrape as a series; labels that clash are renamed as a server does."""
    target = {**TARGET, **labels}
    found = []
    for family in text_string_to_metric_families(text.render()):
        for name, own, value, *_ in family.samples:
            kept = {f"exported_{k}" if k in target else k: v for k, v in own.items()}
            metric = {"__name__": name, **kept, **target}
            found.append({"metric": metric, "values": [[at_s, repr(float(value))]]})
    return found


def matrix(*scrapes: list[dict[str, Any]]) -> bytes:
    """The answer with these scrapes, oldest first."""
    found: dict[str, dict[str, Any]] = {}
    for each in (one for scrape in scrapes for one in scrape):
        known = found.setdefault(json.dumps(each["metric"]), {**each, "values": []})
        known["values"] = [*known["values"], *each["values"]]
    return json.dumps(success({"resultType": "matrix", "result": [*found.values()]})).encode()


def success(data: Mapping[str, Any]) -> dict[str, Any]:
    """An answer with data."""
    return {"status": "success", "data": data}
