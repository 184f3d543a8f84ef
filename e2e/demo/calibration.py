"""Fits the sample's targets and load to other machines, from one prompt measured alone.

The targets of `manifests/samples/smollm2.yaml` hold on the class of machine they were chosen
on. Elsewhere the same prompt is timed first. Targets change as a step with a prompt does, which
is what they are about: on a slower machine no budget could meet them, on a faster one every budget
would. The load changes by the inverse of what is slower, prompts or decoding, so that the engines
are as busy as there.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.chat import stream_chat

REFERENCE_FIRST_MS = 460.0
"""Time to the first token of the probe where the targets were chosen (2 cores, AVX2)."""
REFERENCE_GAP_MS = 54.0
"""Median gap between its further tokens there."""
TOLERANCE = 1.25
"""The targets leave this much room, so nearer machines keep them as they are."""
LEAST_SHARE = 0.45
"""However fast prompts are, a gap between tokens may take two and a half times the usual one."""


class ProbeError(Exception):
    """The probe got no answer to time."""


ROUNDS = 3
STORY = "Write a long story about a river, a village and the people who live there. " * 8
QUESTION = "{}. " + STORY
MAX_TOKENS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One prompt, answered alone."""

    first_ms: float
    gap_ms: float


def measure(port: int, model: str) -> Probe:
    """Asks a few times and takes medians; the first answer only warms up.

    Each time the question begins otherwise, so that no engine has it in its prefix cache.
    """
    probes = [_ask(port, model, QUESTION.format(n)) for n in range(ROUNDS + 1)][1:]
    return Probe(
        first_ms=statistics.median(p.first_ms for p in probes),
        gap_ms=statistics.median(p.gap_ms for p in probes),
    )


def _ask(port: int, model: str, question: str) -> Probe:
    started = time.monotonic()
    pieces = stream_chat(port, model, question, MAX_TOKENS)
    times = [time.monotonic() for piece in pieces if piece]
    if len(times) < 2:
        raise ProbeError(f"{model} answered the probe with {len(times)} tokens")
    return Probe(first_ms=(times[0] - started) * 1e3, gap_ms=_median_gap_ms(times))


def _median_gap_ms(times: Sequence[float]) -> float:
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    return statistics.median(gaps) * 1e3


def factor(probe: Probe) -> float:
    """What the targets are to be multiplied by: 1 where the machine is near enough."""
    first, gap = probe.first_ms / REFERENCE_FIRST_MS, probe.gap_ms / REFERENCE_GAP_MS
    return _unless_near(max(first, LEAST_SHARE * gap))


def load_factor(probe: Probe) -> float:
    """What the load is to be divided by; it leaves no room, so any difference counts."""
    return max(probe.first_ms / REFERENCE_FIRST_MS, probe.gap_ms / REFERENCE_GAP_MS)


def _unless_near(slower: float) -> float:
    return 1.0 if 1 / TOLERANCE <= slower <= TOLERANCE else slower


def scaled(targets_ms: dict[str, int], by: float) -> dict[str, int]:
    """Targets times a factor, in whole tens of milliseconds."""
    if by == 1.0:
        return dict(targets_ms)
    return {name: round(value * by / 10) * 10 for name, value in targets_ms.items()}


def rate(rate_rps: float, by: float) -> float:
    """Load that keeps engines as busy here as the given one does where targets were chosen."""
    return round(rate_rps / by, 2)
