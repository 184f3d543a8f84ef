"""How fast each objective uses up the misses it allows, over one hour and over six.

Burn 1 uses them up exactly; 2 uses up in an hour what two hours allow. Counts are kept in buckets
of five minutes, so an hour is at most five minutes short. Source: Beyer et al., "The Site
Reliability Workbook" (2018), chapter 5.
"""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.measurement.attainment import counts
from paceline_operator.autopilot.vocabulary.decision import SloMeasurement
from paceline_operator.autopilot.vocabulary.memory import Memory, Misses
from paceline_operator.autopilot.vocabulary.policy import Objective, Policy
from paceline_operator.autopilot.vocabulary.window import Window, slo_key

BUCKET_S = 300.0
HOUR_S = 3600.0
SIX_HOURS_S = 21600.0
KEPT = int(SIX_HOURS_S / BUCKET_S)


def noted(policy: Policy, memory: Memory, window: Window) -> Memory:
    """Memory with the samples of a new slice; objectives that are no more are forgotten."""
    known = {each.objective: each for each in memory.misses}
    found = []
    for objective in policy.objectives:
        key = _key(objective)
        seen = counts(objective, window)
        added = _added(known.get(key), key, window.end_s, seen.total - seen.good, seen.total)
        if added is not None:
            found.append(added)
    return replace(memory, misses=tuple(found))


def _added(
    record: Misses | None, key: str, at_s: float, missed: float, total: float
) -> Misses | None:
    if not total:
        return record
    bucket = int(at_s // BUCKET_S)
    if record is None or not 0 <= bucket - record.first < 2 * KEPT:
        return Misses(objective=key, first=bucket, missed=(round(missed, 1),), total=(total,))
    length = max(len(record.total), bucket - record.first + 1)
    misses = [*record.missed, *[0.0] * (length - len(record.missed))]
    totals = [*record.total, *[0.0] * (length - len(record.total))]
    place = bucket - record.first
    misses[place] = round(misses[place] + missed, 1)
    totals[place] += total
    gone = max(0, length - KEPT)
    return Misses(
        objective=key,
        first=record.first + gone,
        missed=tuple(misses[gone:]),
        total=tuple(totals[gone:]),
    )


def burn(objective: Objective, memory: Memory, now_s: float, window_s: float) -> float | None:
    """Share missed over share allowed in the last `window_s`, None without samples."""
    missed, totals = _lately(objective, memory, now_s, window_s)
    total = sum(totals)
    return sum(missed) / total / (1 - objective.share) if total else None


def seen_s(objective: Objective, memory: Memory, now_s: float, window_s: float) -> float:
    """How much of the last `window_s` has samples."""
    return BUCKET_S * sum(total > 0 for total in _lately(objective, memory, now_s, window_s)[1])


def _lately(
    objective: Objective, memory: Memory, now_s: float, window_s: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Missed and all samples of each bucket of the last `window_s`."""
    record = next((each for each in memory.misses if each.objective == _key(objective)), None)
    if record is None:
        return (), ()
    oldest = int(now_s // BUCKET_S) - int(window_s / BUCKET_S) + 1
    skipped = max(0, oldest - record.first)
    return record.missed[skipped:], record.total[skipped:]


def burning(
    measured: SloMeasurement, objective: Objective, memory: Memory, now_s: float
) -> SloMeasurement:
    """A measurement with both burn rates."""
    return replace(
        measured,
        burn_hour=burn(objective, memory, now_s, HOUR_S),
        burn_six_hours=burn(objective, memory, now_s, SIX_HOURS_S),
    )


def _key(objective: Objective) -> str:
    return slo_key(objective.name, objective.metric, objective.target_ms, objective.tier)
