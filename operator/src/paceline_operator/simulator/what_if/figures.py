"""How one run went: objectives, cost, moves. All of the load's own time, without the lead-in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.result import Result, Sample
from paceline_operator.simulator.scoring.outcome import REFUSED, Outcome
from paceline_operator.simulator.scoring.score import Score, overall, worst_window
from paceline_operator.simulator.scoring.yardstick import Yardstick

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run.

    Attributes:
        requests: Sent.
        attained: Share of good samples of each objective, in their order, 0..1; None where there
            are no samples.
        offered: Requests of the tier of each objective, in their order.
        goodput: Share of requests that are whole and met every objective of their tier, 0..1;
            of the tiers that have one, None where no request is of such a tier.
        worst_5min: Lowest of that in five minutes; None where no five minutes hold twenty requests.
        worst_5min_at_s: Their beginning, from the beginning of the load.
        replica_hours: Of all pods over the load's span, those that start or drain included.
        replicas_mean: Pods on average.
        replicas_peak: Most replicas wanted.
        replica_moves: Changes of the wanted replicas.
        replica_reversals: Most changes of direction within ten minutes.
        budget_moves: Changes of the token budget.
        budget_reversals: The same of the budget.
        step_time_moves: Changes of the step time that engines keep.
        step_time_reversals: The same of the step time.
        refused: Requests that were refused.
        unserved: Others that got no whole answer.
        late: Whole answers that missed an objective.
        never_served: Of the refused, those that no replica can ever take, however idle.
        infeasible_share: Share of the time in which the law said that objectives cannot be met.
        infeasible_message: What it said of that last, with the arithmetic.
    """

    requests: int
    attained: tuple[float | None, ...]
    offered: tuple[int, ...]
    goodput: float | None
    worst_5min: float | None
    worst_5min_at_s: float | None
    replica_hours: float
    replicas_mean: float
    replicas_peak: int
    replica_moves: int
    replica_reversals: int
    budget_moves: int
    budget_reversals: int
    step_time_moves: int
    step_time_reversals: int
    refused: int
    unserved: int
    late: int
    never_served: int = 0
    infeasible_share: float = 0.0
    infeasible_message: str = ""


def figures(
    result: Result,
    objectives: Sequence[Objective],
    *,
    lead_s: float,
    span_s: float,
    sample_s: float,
) -> Figures:
    """The figures of a run.

    Args:
        result: What the simulation brought.
        objectives: Of the spec.
        lead_s: Length of the lead-in.
        span_s: Length of the load after it.
        sample_s: Time between two samples of the fleet.
    """
    yardstick, end_s = Yardstick(objectives), lead_s + span_s
    sent = [each for each in result.outcomes if lead_s <= each.arrival_s < end_s]
    judged = _judged(sent, objectives)
    worst = worst_window(judged, yardstick.goodput)
    fleet = _fleet(result.samples, lead_s, end_s, sample_s)
    pod_s = sum(sample.existing * seconds for sample, seconds in fleet)
    moves = replace(result, moves=[move for move in result.moves if lead_s <= move.time_s < end_s])
    return Figures(
        requests=len(sent),
        attained=tuple(
            _share(overall(sent, partial(yardstick.samples, objective))) for objective in objectives
        ),
        offered=tuple(
            sum(each.tier == objective.tier.value for each in sent) for objective in objectives
        ),
        goodput=_share(overall(judged, yardstick.goodput)),
        worst_5min=None if worst is None else worst.share,
        worst_5min_at_s=None if worst is None else max(0.0, worst.start_s - lead_s),
        replica_hours=pod_s / _HOUR_S,
        replicas_mean=pod_s / (sum(seconds for _, seconds in fleet) or 1.0),
        replicas_peak=max((sample.desired for sample, _ in fleet), default=0),
        replica_moves=len(moves.of_knob(Knob.REPLICAS)),
        replica_reversals=moves.most_reversals(Knob.REPLICAS),
        budget_moves=len(moves.of_knob(Knob.BUDGET)),
        budget_reversals=moves.most_reversals(Knob.BUDGET),
        step_time_moves=len(moves.of_knob(Knob.STEP_TIME)),
        step_time_reversals=moves.most_reversals(Knob.STEP_TIME),
        refused=sum(each.outcome == REFUSED for each in sent),
        unserved=sum(not each.completed and each.outcome != REFUSED for each in sent),
        late=sum(each.completed and not yardstick.goodput(each)[0] for each in sent),
    )


def _fleet(
    samples: Sequence[Sample], start_s: float, end_s: float, sample_s: float
) -> list[tuple[Sample, float]]:
    """Samples of a stretch, each with the part of it for which it stands."""
    parts = ((s, min(s.time_s + sample_s, end_s) - max(s.time_s, start_s)) for s in samples)
    return [(sample, seconds) for sample, seconds in parts if seconds > 0.0]


def _judged(sent: Sequence[Outcome], objectives: Sequence[Objective]) -> list[Outcome]:
    """Requests of tiers that have an objective."""
    tiers = {objective.tier.value for objective in objectives}
    return [each for each in sent if each.tier in tiers]


def _share(score: Score) -> float | None:
    return score.share if score.total else None
