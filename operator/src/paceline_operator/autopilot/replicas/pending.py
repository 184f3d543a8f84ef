"""What is under way: replicas that are ordered, requests that wait."""

from __future__ import annotations

from paceline_operator.autopilot.plant.workload import hit_rate
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.fleet import PodObservation
from paceline_operator.autopilot.vocabulary.window import Counter

SHORTEST_DRAIN_S = 30.0


def coming(s: Situation) -> bool:
    """Whether replicas already ordered do not serve yet and are not overdue."""
    if young(s):
        return True
    # What a quota or an admission refuses never exists: it is waited for no longer.
    existing = sum(not pod.draining for pod in s.fleet.pods)
    ordered_lately = s.now_s - s.memory.scaled_out_at_s <= 2 * s.cold_start_s
    return existing < s.fleet.desired_replicas and ordered_lately


def young(s: Situation) -> tuple[PodObservation, ...]:
    """Pods that start and are not late; those in a crash loop never arrive."""
    limit_s, pending = 2 * s.cold_start_s, s.fleet.pending
    return tuple(p for p in pending if s.now_s - p.unready_from_s <= limit_s and not p.looping)


def backlog_rps(s: Situation) -> float:
    """Waiting requests, spread over the time in which they should be gone.

    Not those that the fleet clears by itself before another replica could serve.
    """
    spare_rps = max(0.0, _served_rps(s) - s.demand.now_rps)
    left = _queue(s) - spare_rps * s.usual_start_s
    return max(0.0, left) / max(SHORTEST_DRAIN_S, 2 * s.usual_start_s)


def late_from_before(s: Situation) -> bool:
    """Whether a queue makes late all who stand in it, so that they say nothing of what comes now.

    One that replicas are asked for already, or one that becomes shorter.
    """
    return backlog_rps(s) > 0 or (_queue(s) > 0 and _is_shrinking(s))


def _is_shrinking(s: Situation) -> bool:
    """Whether more is computed than comes; nobody can tell while batch prompts are computed too."""
    lately = s.since_capacity
    if lately.count(Counter.BATCH_TOKENS_RECEIVED) or s.waiting.requests > s.waiting.interactive:
        return False
    return lately.moments().of("p") > lately.offered_tokens * (1.0 - hit_rate(lately))


def _queue(s: Situation) -> float:
    """Requests that wait, less those that the fleet clears within its TTFT target."""
    by_tokens = s.waiting.tokens / max(1.0, s.plant.workload.prompt_mean)
    usual = (s.ttft_target_ms or 1e3) / 1e3 * _served_rps(s)
    return max(by_tokens, s.waiting.interactive) - usual


def _served_rps(s: Situation) -> float:
    """What the serving replicas carry by the model; 0 while it says nothing."""
    return s.capacity[0] * len(s.fleet.serving) if s.capacity is not None else 0.0
