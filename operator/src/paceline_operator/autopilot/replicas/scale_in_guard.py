"""Why no replica may be given back now."""

from __future__ import annotations

from paceline_operator.autopilot.measurement.attainment import measure
from paceline_operator.autopilot.replicas import unseen
from paceline_operator.autopilot.replicas.pending import coming
from paceline_operator.autopilot.replicas.recommendation import window_full
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Reason

IN_COOLDOWN_S = 60.0


def forbidden_in(s: Situation) -> tuple[Reason, str] | None:
    """The first guard that forbids it, with its words; None where none does."""
    guards = (
        (Reason.ROLLOUT, "Pods are being replaced.", s.fleet.rolling_out),
        (Reason.PODS_UNMEASURED, unseen.told(s), unseen.too_many(s)),
        (Reason.DATA_STALE, "Not every pod reports fresh metrics.", unseen.hides_demand(s)),
        (Reason.CAPACITY_PENDING, "Replicas still start.", coming(s)),
        (Reason.KNOB_SQUEEZED, "Running sequences are squeezed.", _squeezed(s)),
        (Reason.ITL_NOT_HELD, "ITL is missed.", s.itl_violated and s.attainable[1] is not None),
        (Reason.TTFT_QUEUE, "First tokens or whole answers come too late.", bool(s.late)),
        (Reason.COARSE_HISTOGRAM, "The edges leave open whether they hold.", _open(s)),
        (Reason.MODEL_LEARNING, "The step-time model is still learning.", _untrusted(s)),
        (Reason.COOLDOWN, "The last scale-in is too recent.", _cooling(s)),
        (Reason.DOWN_WINDOW, "The down window is not over.", not window_full(s)),
    )
    return next(((reason, text) for reason, text, holds in guards if holds), None)


def _open(s: Situation) -> bool:
    """Whether an objective holds only if samples lie well between the edges of a histogram."""
    found = (measure(each, s.since_change) for each in s.steering)
    return any(
        each.edges_ms is not None and each.low is not None and each.low < each.percentile / 100
        for each in found
    )


def _squeezed(s: Situation) -> bool:
    return s.memory.squeezed_seqs is not None


def _untrusted(s: Situation) -> bool:
    return s.has_traffic and s.capacity is None


def _cooling(s: Situation) -> bool:
    return s.now_s - s.memory.scaled_in_at_s < IN_COOLDOWN_S
