"""Metrics of a pretended engine under a steady load, in the size and form of a real one's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import exp

from paceline_operator.autopilot.vocabulary.window import TERMS, StepClass
from paceline_operator.metrics import names
from paceline_operator.metrics.exposition import HISTOGRAMS
from paceline_operator.metrics.names import Family
from paceline_operator.simulator.metering.edges import EDGES

MODEL = "@MODEL@"
LATE = 0.5
"""Share of first tokens that are late under too much load."""
RATES = {
    names.REQUESTS_RECEIVED: 4.0, names.PROMPT_TOKENS_RECEIVED: 1200.0, names.REQUESTS: 4.0,
    names.PROMPT_TOKENS: 1200.0, names.GENERATION_TOKENS: 400.0, names.PREFIX_QUERIES: 1200.0,
    names.PREFIX_HITS: 300.0, names.PREEMPTIONS: 0.0, names.STEPS_AT_BUDGET: 2.0,
    names.BUSY_SECONDS: 0.4, names.REJECTED: 0.0, names.GOODPUT: 4.0,
}  # fmt: skip
"""Growth per second."""
TIERS = ("interactive", "batch")
_SPREAD = {"step": 0.02, "ttft": 0.2, "itl": 0.02, "tpot": 0.02, "e2e": 2.5, "queue": 0.02,
           "prompt_tokens_per_request": 300.0, "generation_tokens_per_request": 100.0}  # fmt: skip


def text(served_s: float, late_s: float, started_s: float, gauges: dict[Family, float]) -> str:
    """What an engine reports.

    Args:
        served_s: Seconds of load so far.
        late_s: Part of them with too much of it.
        started_s: Start of the process, Unix time.
        gauges: Those that differ between engines.
    """
    return "\n".join([*_lines(served_s, late_s, {**gauges, names.START_TIME: started_s}), ""])


def _lines(served_s: float, late_s: float, gauges: dict[Family, float]) -> Iterator[str]:
    for family, rate in RATES.items():
        for labels in _label_sets(family):
            yield _line(family.full_name, labels, rate * (served_s + late_s))
    for name, role in HISTOGRAMS.items():
        count = 4.0 * served_s * (100 if role.value in ("itl", "step") else 1)
        for labels in _label_sets(_family(name)):
            for edge in (*EDGES[role], float("inf")):
                share = 1.0 - exp(-edge / _SPREAD[role.value])
                le = "+Inf" if edge == float("inf") else repr(edge)
                yield _line(f"{name}_bucket", {"le": le, **labels}, float(int(count * share)))
            yield _line(f"{name}_sum", labels, count * _SPREAD[role.value])
            yield _line(f"{name}_count", labels, count)
    yield from _counts(served_s, late_s)
    for family, value in gauges.items():
        for labels in _label_sets(family):
            yield _line(family.full_name, labels, value)


def _counts(served_s: float, late_s: float) -> Iterator[str]:
    for step_class in StepClass:
        for term, value in zip(TERMS, _moments(step_class), strict=True):
            labels = {"class": step_class.value, "term": term}
            yield _line(names.STEP_MOMENTS.full_name, labels, value * served_s)
    for slo, metric, target in (("ttft", "TTFT", 500), ("itl", "ITL", 100)):
        good = 4.0 * served_s - (LATE * 4.0 * late_s if metric == "TTFT" else 0.0)
        key = {"slo": slo, "metric": metric, "target_ms": str(target), "tier": "interactive"}
        bad = 4.0 * served_s - good
        yield _line(names.SLO_SAMPLES.full_name, {**key, "outcome": "good"}, good)
        yield _line(names.SLO_SAMPLES.full_name, {**key, "outcome": "bad"}, bad)
    yield _line(names.CACHE_CONFIG.full_name, {"block_size": "16", "num_gpu_blocks": "8192"}, 1.0)


def _family(full_name: str) -> Family:
    return next(each for each in names.FAMILIES if each.full_name == full_name)


def _label_sets(family: Family) -> list[dict[str, str]]:
    tiers = TIERS if "tier" in family.labels else ("",)
    others = {"outcome": "stop", "reason": "draining"}
    fixed = {key: value for key, value in others.items() if key in family.labels}
    return [{**fixed, **({"tier": tier} if tier else {})} for tier in tiers]


def _line(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{each}"' for key, each in labels.items())
    return f'{name}{{model_name="{MODEL}"{"," if inside else ""}{inside}}} {value!r}'


def _moments(step_class: StepClass, steps: int = 20) -> list[float]:
    """Sums of one second's steps."""
    rng = random.Random(step_class.value)
    sums = [0.0] * len(TERMS)
    for _ in range(steps):
        rows = 0.0 if step_class is StepClass.PREFILL_ONLY else float(rng.randint(2, 12))
        prompt = 0.0 if step_class is StepClass.DECODE_ONLY else float(rng.randint(32, 500))
        kv, context = 400.0 * rows, prompt * 300.0
        took_s = (8.0 + 0.05 * prompt + 0.4 * rows + 1e-4 * kv + 1e-6 * context) / 1e3
        values = (1.0, prompt, rows, kv, context, took_s)
        for place, (a, b) in enumerate(combinations_with_replacement(values, 2)):
            sums[place] += a * b
    return sums
