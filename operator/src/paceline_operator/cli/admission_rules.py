"""The CEL rules of the definition, each written plainly under its own text.

The API server evaluates the texts; here, without one, the functions stand for them. Values are
as in JSON, with stored defaults filled in and without nulls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from paceline_operator.api.v1alpha1 import MAX_NAME_LENGTH, MAX_PROXY_REPLICAS
from paceline_operator.domain import quantity

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUANTITY = re.compile(
    r"[+-]?0*(?P<whole>\d*)(\.(?P<rest>\d*))?(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?",
    re.ASCII,
)
_MOST_DIGITS, _MOST_BINARY_DIGITS = 18, 14
"""What the server still takes for a whole number, however small its value."""
_BINARY, _DECIMAL = "KMGTPE", "num kMGTPE"
_ROWS = "self.maxNumSeqs * (1 + (has(self.speculative) ? self.speculative.numTokens : 0))"


def _is_simulated(device: Mapping[str, Any]) -> bool:
    return device.get("type") == "Simulated"


def _has_weights(spec: Mapping[str, Any]) -> bool:
    return "uri" in spec.get("model", {}) or _is_simulated(spec["engine"].get("device", {}))


def _fits_proxy(spec: Mapping[str, Any], replicas: int | None) -> bool:
    is_proxied = spec["routing"]["mode"] == "Proxy"
    return not is_proxied or replicas is None or replicas <= MAX_PROXY_REPLICAS


def _rows(engine: Mapping[str, Any]) -> int:
    """Tokens of a step in which every sequence decodes."""
    drafts = engine["speculative"]["numTokens"] if "speculative" in engine else 0
    rows: int = engine["maxNumSeqs"] * (1 + drafts)
    return rows


def _in_order(lower: int | None, upper: int | None) -> bool:
    return lower is None or upper is None or lower <= upper


def _amount(value: str) -> Decimal | None:
    return quantity.parse(value) if _QUANTITY.fullmatch(value) else None


def _is_whole_and_positive(value: str) -> bool:
    number = _amount(value)
    is_in_range = number is not None and 0 < number <= quantity.MAX_WHOLE
    return is_in_range and _is_kept_whole(value)


def _is_kept_whole(value: str) -> bool:
    """Whether the server keeps a quantity as an integer: a matter of how it is written, too."""
    found = _QUANTITY.fullmatch(value)
    if found is None:
        return False
    whole, rest, suffix = found["whole"], found["rest"] or "", found["suffix"] or ""
    if suffix.endswith("i"):
        doubled = 10 * (_BINARY.index(suffix[0]) + 1)
        return not rest and len(whole) + 3 * doubled // 10 <= _MOST_BINARY_DIGITS
    is_power = suffix[:1] in ("e", "E") and len(suffix) > 1
    power = int(suffix[1:]) if is_power else 3 * (_DECIMAL.index(suffix or " ") - 3)
    return len(whole) + len(rest) <= _MOST_DIGITS and power >= len(rest)


def _is_amount(value: Any) -> bool:
    number = _amount(value) if isinstance(value, str) else value
    return number is not None and number >= 0


def _are_distinct(slos: list[Mapping[str, Any]]) -> bool:
    counts = Counter((slo["metric"], slo["tier"], slo["percentile"]) for slo in slos)
    return all(count == 1 for count in counts.values())


def _schedules_fit(scaling: Mapping[str, Any]) -> bool:
    most = scaling.get("maxReplicas")
    return all(_in_order(each["minReplicas"], most) for each in scaling.get("schedules", ()))


RULES: Mapping[str, Callable[[Any], bool]] = {
    f"self.metadata.name.size() <= {MAX_NAME_LENGTH}": lambda it: (
        len(it["metadata"]["name"]) <= MAX_NAME_LENGTH
    ),
    f"self.metadata.name.matches('^{_NAME.pattern}$')": lambda it: (
        _NAME.fullmatch(it["metadata"]["name"]) is not None
    ),
    "(has(self.model) && has(self.model.uri)) || (has(self.engine.device) && "
    "has(self.engine.device.type) && self.engine.device.type == 'Simulated')": _has_weights,
    f"self.routing.mode != 'Proxy' || !has(self.replicas) || self.replicas <= {MAX_PROXY_REPLICAS}":
    lambda it: _fits_proxy(it, it.get("replicas")),
    "!has(self.scaling) || self.routing.mode != 'Proxy' || !has(self.scaling.minReplicas) || "
    f"self.scaling.minReplicas <= {MAX_PROXY_REPLICAS}":
    lambda it: _fits_proxy(it, it.get("scaling", {}).get("minReplicas")),
    "!has(self.scaling) || self.routing.mode != 'Proxy' || !has(self.scaling.maxReplicas) || "
    f"self.scaling.maxReplicas <= {MAX_PROXY_REPLICAS}":
    lambda it: _fits_proxy(it, it.get("scaling", {}).get("maxReplicas")),
    "!self.startsWith('file://') || self.startsWith('file:///')": lambda it: (
        not it.startswith("file://") or it.startswith("file:///")
    ),
    "!self.contains('/../') && !self.endsWith('/..')": lambda it: (
        "/../" not in it and not it.endswith("/..")
    ),
    f"self.batchTokens.max > {_ROWS}": lambda it: it["batchTokens"]["max"] > _rows(it),
    f"!has(self.batchTokens.initial) || self.batchTokens.initial > {_ROWS}": lambda it: (
        "initial" not in it["batchTokens"] or it["batchTokens"]["initial"] > _rows(it)
    ),
    "self.runtime != 'VLLM' || has(self.image)": lambda it: (
        it["runtime"] != "VLLM" or "image" in it
    ),
    "self.runtime != 'VLLM' || !has(self.device) || !has(self.device.type) || "
    "self.device.type != 'Simulated'": lambda it: (
        it["runtime"] != "VLLM" or not _is_simulated(it.get("device", {}))
    ),
    "!has(self.profile) || (has(self.type) && self.type == 'Simulated')": lambda it: (
        "profile" not in it or _is_simulated(it)
    ),
    "!has(self.loadSeconds) || (has(self.type) && self.type == 'Simulated')": lambda it: (
        "loadSeconds" not in it or _is_simulated(it)
    ),
    "isQuantity(self) && quantity(self).isInteger() && quantity(self).isGreaterThan(quantity('0'))":
    _is_whole_and_positive,
    "!has(self.min) || self.min <= self.max": lambda it: _in_order(it.get("min"), it["max"]),
    "!has(self.initial) || self.initial <= self.max": lambda it: (
        _in_order(it.get("initial"), it["max"])
    ),
    "!has(self.initial) || !has(self.min) || self.min <= self.initial": lambda it: (
        _in_order(it.get("min"), it.get("initial"))
    ),
    "self.all(a, self.exists_one(b, b.metric == a.metric && b.tier == a.tier && "
    "b.percentile == a.percentile))": _are_distinct,
    "!has(self.mode) || self.mode != 'Auto' || has(self.maxReplicas)": lambda it: (
        it.get("mode") != "Auto" or "maxReplicas" in it
    ),
    "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas":
    lambda it: _in_order(it.get("minReplicas"), it.get("maxReplicas")),
    "!has(self.schedules) || !has(self.maxReplicas) || "
    "self.schedules.all(s, s.minReplicas <= self.maxReplicas)": _schedules_fit,
    "has(self.end) != has(self.durationSeconds)": lambda it: (
        ("end" in it) is not ("durationSeconds" in it)
    ),
    "self.all(k, type(self[k]) == string ? isQuantity(self[k]) && "
    "!quantity(self[k]).isLessThan(quantity('0')) : self[k] >= 0)": lambda it: (
        all(_is_amount(each) for each in it.values())
    ),
}  # fmt: skip
"""Whether a value keeps to a rule, by the rule's text."""
