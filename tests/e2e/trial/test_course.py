"""Which refusals the death of an engine explains, and how Prometheus finds engines."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
import yaml

from e2e.smoke.losses import Fault
from e2e.smoke.site import SmokeError
from e2e.trial import prometheus
from e2e.trial.course import RECOVERY_S, unexplained
from e2e.trial.prometheus import (
    CONFIG,
    configuration,
    misread,
    queries,
    targets,
    values,
)
from paceline_operator.metrics.prometheus import PATH
from paceline_operator.settings import MetricsSettings
from tests.e2e.trial.making import record


def test_refusals_are_explained_by_load_before_and_a_missing_engine_after() -> None:
    refused = [record(at_s, None) for at_s in (10.0, 99.0, 101.0, 150.0, 165.0, 170.0 + RECOVERY_S)]
    found = unexplained(refused, 100.0, [Fault("engine", 149.0, 160.0)])
    assert [each.sent_s for each in found] == [101.0, 170.0 + RECOVERY_S]


def test_a_healthy_fleet_refuses_nobody_once_the_load_is_steady() -> None:
    assert len(unexplained([record(101.0, None)], 100.0, [])) == 1


def test_prometheus_is_told_whose_series_one_is() -> None:
    pods = [
        {"metadata": {"namespace": "n", "name": name}, "status": status}
        for name, status in (
            ("serves", {"phase": "Running", "podIP": "198.18.0.9"}),
            ("starts", {"phase": "Pending"}),
            ("ended", {"phase": "Succeeded", "podIP": "198.18.0.8"}),
        )
    ]
    (found,) = targets(pods)
    labels = MetricsSettings.model_validate(values("http://x:1")["metrics"]).prometheus.labels
    assert found == {
        "targets": ["198.18.0.9:8001"],
        "labels": {labels.namespace: "n", labels.pod: "serves"},
    }


def test_debians_server_takes_the_configuration(tmp_path: Path) -> None:
    """It is built without most kinds of discovery."""
    file = tmp_path / "targets.json"
    file.write_text("[]")
    (tmp_path / CONFIG).write_text(yaml.safe_dump(configuration(file)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prometheus, "NODE_IP", "127.0.0.1")
        with prometheus._server(tmp_path) as url:
            assert url.startswith("http://127.0.0.1:")
            assert queries(url) == 0
            for _ in range(3):
                with urllib.request.urlopen(f"{url}{PATH}?query=up", timeout=5):  # noqa: S310
                    pass
            assert queries(url) == 3
    with pytest.raises(SmokeError, match="does not say what it was asked"):
        queries(url)


@pytest.mark.parametrize(
    ("asked", "at_engines", "said"),
    [
        (14, 0, None),
        (42, 0, None),
        (13, 0, "the server answered 13 queries in 210 s, 14 at least expected"),
        (0, 0, "the server answered 0 queries"),
        (42, 1, "operators asked engines themselves 1 times"),
    ],
)
def test_measurements_must_have_come_from_the_server(
    asked: int, at_engines: int, said: str | None
) -> None:
    found = misread(asked, at_engines, 210.0)
    assert found is None if said is None else str(found).startswith(said)
