"""What is felt: measured violations that ask for replicas by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.measurement.attainment import ENOUGH_SAMPLES, measure, wilson
from paceline_operator.autopilot.replicas.capacity_evidence import AIM, GROWTH
from paceline_operator.autopilot.replicas.pending import coming, late_from_before
from paceline_operator.autopilot.situation.situation import REPLICA_EVERY_S, Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.arbitration import Cause
from paceline_operator.autopilot.vocabulary.decision import Reason, SloMeasurement
from paceline_operator.autopilot.vocabulary.policy import Objective

MOST_BEYOND, LEAST_BEYOND = 3.0, 4
"""Times the replicas of the model, and how many beyond them, after which more will not help."""
MOST_TIMES = 2.0
"""Most times the serving replicas, and those of the model, that late first tokens ask for."""
_QUIET_WINDOW_S = 10.0
_KNOWN_WINDOW_S = 45.0
_BESIDE_EACH_OTHER = 1.5
_LATE = "First tokens, or whole answers, come too late and the budget can do no more"
_ONE_MORE_TO_DECODE = "Decoding alone exceeds the ITL target: one more replica."


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What is felt asks for more replicas than there are.

    Attributes:
        replicas: As many.
        reason: What is felt.
        message: The same in words.
        late_times: How many times what it should each replica carries, by late tokens.
    """

    replicas: int
    reason: Reason
    message: str
    late_times: float | None = None


def feedback(s: Situation, *, model: int | None, feasible: bool) -> Feedback | None:
    """What measured violations alone ask for; None where they ask for nothing.

    Args:
        s: Now.
        model: Replicas that the model asks for; None where it cannot say.
        feasible: Whether the objectives can be met at all.
    """
    if coming(s) or len(s.fleet.serving) < s.fleet.desired_replicas:
        return None  # more are ordered than serve: still more orders bring nothing
    one_more = s.fleet.desired_replicas + 1
    decode = Feedback(
        replicas=one_more, reason=Reason.ITL_DECODE_BOUND, message=_ONE_MORE_TO_DECODE
    )
    squeezed = s.memory.squeezed_seqs is not None
    if feasible and squeezed and _serve_no_more_than_when_squeezed(s):
        return decode
    if s.since_capacity.length_s < (_QUIET_WINDOW_S if s.capacity is None else _KNOWN_WINDOW_S):
        return None
    if feasible and s.cause is Cause.DECODE and s.stance.out_now and _fewer_rows_help(s):
        return decode
    return _for_late(s, one_more, model) if _late_for_want_of_replicas(s) else None


def _serve_no_more_than_when_squeezed(s: Situation) -> bool:
    return len(s.fleet.serving) <= s.memory.squeezed_replicas


def _for_late(s: Situation, one_more: int, model: int | None) -> Feedback:
    """As many as bring what is late to what is aimed at, one more at least.

    Of many no more than some times what the model asks for: where more of them do not help, the
    cause is another one, a router that skews for one.
    """
    # Without a model nothing is known to be steady either.
    times = 1.0 if model is None or late_from_before(s) else _late_times(s)
    proven = ceil(len(s.fleet.serving) * times)
    replicas = max(one_more, min(proven, ceil(MOST_TIMES * (model or 0))))
    if model is not None and replicas > max(ceil(MOST_BEYOND * model), model + LEAST_BEYOND):
        return _no_more(s, model, times)
    more = phrases.counted(replicas - s.fleet.desired_replicas, "more replica")
    return Feedback(
        replicas=replicas,
        reason=Reason.TTFT_QUEUE,
        message=f"{_LATE}: {more}.",
        late_times=times,
    )


def _no_more(s: Situation, model: int, times: float) -> Feedback:
    """As many as there are: so many more than the model asks for have not helped."""
    text = (
        f"{_LATE}, and more replicas have not helped: the model asks for {model}. "
        "Something else delays them."
    )
    now = s.fleet.desired_replicas
    return Feedback(replicas=now, reason=Reason.TTFT_QUEUE, message=text, late_times=times)


def _late_times(s: Situation) -> float:
    """How many times what it should each replica carries, by what surely is late; 2 at most."""
    late = (
        (1.0 - _upper(s, found)) / (AIM * (1.0 - objective.share))
        for objective, found in _measured(s, SloMetric.TTFT)
    )
    return float(min(MOST_TIMES, max(1.0, max(late, default=1.0)) ** (1.0 / GROWTH)))


def _fewer_rows_help(s: Situation) -> bool:
    """Whether sequences decode beside each other, so that another replica takes some over.

    A handful of steps proves nothing, however slow.
    """
    rows = s.plant.workload.rows_p95
    if rows < _BESIDE_EACH_OTHER or s.plant.decode_ms(1.0) > (s.itl_target_ms or float("inf")):
        return False
    known = s.plant.decode.steps >= ENOUGH_SAMPLES and s.plant.decode_trusted_at(rows)
    return known or _itl_samples(s) >= ENOUGH_SAMPLES


def _itl_samples(s: Situation) -> int:
    return max((measure(each, s.since_change).samples for each in s.itl_objectives), default=0)


def _late_for_want_of_replicas(s: Situation) -> bool:
    if not _surely_late(s):
        return False
    return s.stance.out_now or (s.stance.out_late and _budget_exhausted(s))


def _surely_late(s: Situation) -> bool:
    """Whether late first tokens are more than arrivals that came in a cluster."""
    return any(_upper(s, found) < objective.share for objective, found in _measured(s, *s.late))


def _upper(s: Situation, found: SloMeasurement) -> float:
    """What was attained at most, beyond chance.

    Requests of a cluster are late together: so many samples fewer there are.
    """
    share = found.attainment if found.high is None else found.high
    return wilson(share or 0.0, found.samples / s.demand.dispersion)[1]


def _measured(s: Situation, *metrics: SloMetric) -> list[tuple[Objective, SloMeasurement]]:
    """Since the fleet serves as it does now; those without a sample left out."""
    measured = [(objective, measure(objective, s.since_capacity)) for objective in _of(s, *metrics)]
    return [(objective, found) for objective, found in measured if found.attainment is not None]


def _of(s: Situation, *metrics: SloMetric) -> tuple[Objective, ...]:
    """Objectives on some metrics that more replicas can help."""
    return tuple(objective for objective in s.steering if objective.metric in metrics)


def _budget_exhausted(s: Situation) -> bool:
    """Whether the fast loop has no move left that would help first tokens."""
    if s.policy.tuning_mode != "Auto":
        return True
    if s.knobs.max_num_batched_tokens >= 0.9 * s.cap_or_floor:
        return s.now_s - s.memory.raised_at_s >= REPLICA_EVERY_S
    return not s.model_trusted
