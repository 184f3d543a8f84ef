"""Pods against their pool: who is slower than what all run by, and for how long.

Pods of one template on like machines keep one step-time law. One that does not, for longer
than a stall, has a sick machine: the model and the budget stay those of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median_low

from paceline_operator.autopilot.plant.fit import Estimate
from paceline_operator.autopilot.plant.law import StepLoad
from paceline_operator.autopilot.vocabulary.memory import PodPace
from paceline_operator.autopilot.vocabulary.window import Moments, PodShare, StepClass, Window

SLOW = 1.25
"""Step time over the pool's from which a pod is slow."""
SOUND = 1.15
"""And below which one that was is sound again."""
PERSISTS_S = 30.0
HALF_LIFE_S = 20.0
LEAST_STEPS = 50.0
KNOWN_FOR_S = 300.0
"""A verdict is forgotten once nothing has spoken for it or against it for so long."""
MOST_KEPT = 64
"""Pods remembered from slice to slice; the status has to hold them."""
KNOWN_STEPS = 200.0
"""Steps behind each law before pods are held against it."""


def prompts(share: PodShare) -> Moments:
    """Its steps with prompt tokens."""
    return share.moments(StepClass.MIXED, StepClass.PREFILL_ONLY)


def predicted_s(law: Estimate, seen: Moments) -> float:
    """What a law says of the time of these steps, all together."""
    total = StepLoad(
        prefill_tokens=seen.of("p"),
        decode_rows=seen.of("d"),
        kv_tokens=seen.of("k"),
        chunk_context=seen.of("x"),
    )
    return (law.law.step_ms(total) + (seen.count - 1.0) * law.law.base_ms) / 1e3


def judged(
    paces: Sequence[PodPace],
    window: Window,
    laws: tuple[Estimate, Estimate],
    settled: Iterable[str],
) -> tuple[PodPace, ...]:
    """Each pod's pace after a slice.

    Held against the lower median of the pods, so that neither a few sick ones nor a law that
    they have helped to make hide them; a pod alone has nobody to be slower than. A pod without
    steps of its own in the slice is neither sick nor sound by it. Of a large fleet those are
    kept whose deviation matters most.

    Args:
        paces: Those before it.
        window: The slice, with what each pod has added.
        laws: Of decode-only steps, and of steps with prompt tokens.
        settled: UIDs of the pods to be judged; others are forgotten.
    """
    known = {pace.uid: pace for pace in paces}
    fade = 0.5 ** (window.length_s / HALF_LIFE_S)
    shares = window.pods if all(law.steps >= KNOWN_STEPS for law in laws) else {}
    found = [
        _added(known.get(uid) or PodPace(uid=uid), shares.get(uid, PodShare()), laws, fade)
        for uid in sorted(set(settled))
    ]
    told = {uid for uid, share in shares.items() if share.moments().count}
    ratios = [_ratio(pace) for pace in found if pace.steps >= LEAST_STEPS]
    if len(ratios) > 1:
        usual = median_low(ratios)
        found = [_compared(p, usual, window.end_s) if p.uid in told else p for p in found]
    is_alone = len(found) == 1
    return _kept([_remembered(pace, window.end_s, is_alone=is_alone) for pace in found])


def _kept(paces: Sequence[PodPace]) -> tuple[PodPace, ...]:
    """At most `MOST_KEPT`: the sick, those that may become so, and the slowest of the others."""
    if len(paces) <= MOST_KEPT:
        return tuple(paces)
    weighed = sorted(paces, key=lambda p: (p.sick, p.slow_since_s is not None, p.slower, p.steps))
    return tuple(sorted(weighed[-MOST_KEPT:], key=lambda pace: pace.uid))


def sick(paces: Iterable[PodPace]) -> frozenset[str]:
    """UIDs of the sick pods."""
    return frozenset(pace.uid for pace in paces if pace.sick)


def _ratio(pace: PodPace) -> float:
    return pace.observed_s / max(1e-9, pace.predicted_s)


def _added(pace: PodPace, share: PodShare, laws: tuple[Estimate, Estimate], fade: float) -> PodPace:
    decode, prefill = share.moments(StepClass.DECODE_ONLY), prompts(share)
    parts = [(law, seen) for law, seen in zip(laws, (decode, prefill), strict=True) if seen.count]
    return replace(
        pace,
        observed_s=fade * pace.observed_s + sum(seen.of("t") for _, seen in parts),
        predicted_s=fade * pace.predicted_s + sum(predicted_s(law, seen) for law, seen in parts),
        steps=fade * pace.steps + sum(seen.count for _, seen in parts),
    )


def _compared(pace: PodPace, usual: float, now_s: float) -> PodPace:
    if pace.steps < LEAST_STEPS:
        return pace
    slower = _ratio(pace) / max(1e-9, usual)
    if slower <= (SOUND if pace.sick else SLOW):
        return replace(pace, slower=slower, slow_since_s=None, sick=False, judged_at_s=now_s)
    is_new = pace.slow_since_s is None or now_s - pace.judged_at_s > PERSISTS_S
    since_s = now_s if is_new or pace.slow_since_s is None else pace.slow_since_s
    lasts = now_s - since_s >= PERSISTS_S
    return replace(
        pace, slower=slower, slow_since_s=since_s, sick=pace.sick or lasts, judged_at_s=now_s
    )


def _remembered(pace: PodPace, now_s: float, *, is_alone: bool) -> PodPace:
    """What was said of a pod holds while it has a pool, and something has spoken for it lately."""
    if pace.slow_since_s is None:
        return pace
    if now_s - pace.judged_at_s <= KNOWN_FOR_S and not is_alone:
        return pace
    return replace(pace, slower=1.0, slow_since_s=None, sick=False)
