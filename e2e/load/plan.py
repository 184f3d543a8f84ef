"""Every request of a run, decided before the first is sent: a function of flags and seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from e2e.load.arrivals import Segment, arrivals, even, poisson
from e2e.load.mix import Kind, choose


class PlanError(ValueError):
    """The plan is not one that may be run; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """One request.

    Attributes:
        number: Position in the plan; also seeds its text and its sampling.
        offset_s: Seconds from the start of the run.
        phase: What the load does at that time.
        kind: What sort of request it is.
        prompt_tokens: Prompt tokens asked of the text generator.
        max_tokens: Output tokens.
        streamed: Whether the answer comes token by token.
    """

    number: int
    offset_s: float
    phase: str
    kind: str
    prompt_tokens: int
    max_tokens: int
    streamed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of the run, in seconds from its start."""

    name: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run: requests in order of arrival, and its phases."""

    requests: tuple[PlannedRequest, ...]
    phases: tuple[Phase, ...]

    @property
    def duration_s(self) -> float:
        """Length of the load; answers may come later."""
        return self.phases[-1].to_s


def make_plan(
    segments: Sequence[Segment],
    kinds: Sequence[Kind],
    *,
    seed: int,
    max_requests: int,
    evenly: bool = False,
    streamed_share: float = 1.0,
) -> Plan:
    """Draws a plan. Equal arguments give equal plans.

    Args:
        segments: Rates over time.
        kinds: What requests ask for.
        seed: Of everything random.
        max_requests: Refuses to plan more.
        evenly: Even spacing in place of Poisson arrivals.
        streamed_share: Share of streamed requests.

    Raises:
        PlanError: It would hold no request, or more than `max_requests`.
    """
    expected = sum(segment.expected for segment in segments)
    if expected > max_requests:
        raise PlanError(f"the plan holds about {expected:.0f} requests, above {max_requests}")
    rng, points_rng = Random(seed), Random(f"arrivals {seed}")
    points = even() if evenly else poisson(points_rng)
    requests = []
    for number, arrival in enumerate(arrivals(segments, points)):
        kind = choose(kinds, rng)
        prompt_tokens, max_tokens = kind.draw(rng)
        requests.append(
            PlannedRequest(
                number=number,
                offset_s=arrival.offset_s,
                phase=arrival.phase,
                kind=kind.name,
                prompt_tokens=prompt_tokens,
                max_tokens=max_tokens,
                streamed=rng.random() < streamed_share,
            )
        )
    if not requests:
        raise PlanError("the plan holds no request: raise the rate or the duration")
    return Plan(requests=tuple(requests[:max_requests]), phases=phases_of(segments))


def phases_of(segments: Sequence[Segment]) -> tuple[Phase, ...]:
    """Where each segment lies in time."""
    phases, start_s = [], 0.0
    for segment in segments:
        end_s = start_s + segment.duration_s
        phases.append(Phase(name=segment.phase, from_s=start_s, to_s=end_s))
        start_s = end_s
    return tuple(phases)
