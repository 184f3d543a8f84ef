"""Conditions from what was seen: each from live pods and the last tick, never from hope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from paceline_operator.api.choice import ConditionStatus
from paceline_operator.api.conditions import ConditionType, Verdict, timestamp
from paceline_operator.api.v1alpha1 import MAX_WINDOW_SECONDS
from paceline_operator.autopilot.vocabulary.decision import Tick
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.domain import rollout
from paceline_operator.domain.pods import CRASH_LOOP, UNSCHEDULABLE, PodView, Problem

ABSENT = "Absent"
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN

_NO_ROOM = frozenset({UNSCHEDULABLE, rollout.NOT_MADE})
"""Of more pods: a limit, and no failure of those that serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one pass saw, as conditions need it.

    Attributes:
        pods: All pods that exist.
        wanted: Replicas wanted, None while unknown.
        template_hash: Template pods should be of.
        rolling_out: Whether pods of another template are being replaced.
        was_ready: Condition `Ready` before.
        ready_before: Ready pods at the pass before.
        proxy_ready: Whether the proxy serves; True where there is none.
        proxy_awaited: Whether the Service leads to the engines until it does.
        proxy_at_rest: Whether one is kept at 0 replicas, for the spec does without.
        proxy_problem: What keeps its pods from serving.
        proxy_stuck: Whether that needs a person.
        not_made: Why pods that are missing cannot be made.
        refused: Why the spec cannot be served as written.
        stuck: The Deployment has given up waiting for progress.
        rolled_out: The Deployment waits for none: its last rollout came to its end.
        waiting: What a scale-in waits for.
        yielded: Knob -> writer it has yielded to.
        strays: Pods that somebody else drains.
        strayed: Pods that somebody else drained lately.
        deaf: Pods whose engine again and again does not take live values.
        contested: Children that somebody else changes again and again, and who.
        tick: What the autopilot said, None where it did not run.
        unmeasured: Why pods gave no metrics, empty where all did.
        settling: Whether the process took over so lately that not knowing is no news.
        shortened: Objectives whose stored window is longer than measurements are kept.
    """

    pods: tuple[PodView, ...] = ()
    wanted: int | None = None
    template_hash: str = ""
    rolling_out: bool = False
    was_ready: bool = False
    ready_before: int = 0
    proxy_ready: bool = True
    proxy_awaited: bool = False
    proxy_at_rest: bool = False
    proxy_problem: Problem | None = None
    proxy_stuck: bool = False
    not_made: Problem | None = None
    refused: Problem | None = None
    stuck: bool = False
    rolled_out: bool = False
    waiting: str | None = None
    yielded: Mapping[str, str] = field(default_factory=dict)
    strays: tuple[str, ...] = ()
    strayed: tuple[str, ...] = ()
    deaf: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    tick: Tick | None = None
    unmeasured: str = ""
    settling: bool = False
    shortened: tuple[str, ...] = ()

    @property
    def live(self) -> tuple[PodView, ...]:
        """Pods that count as replicas."""
        return tuple(pod for pod in self.pods if pod.live)

    @property
    def ready_count(self) -> int:
        """Live pods that serve."""
        return sum(pod.ready for pod in self.live)

    @property
    def problem(self) -> Problem | None:
        """The most frequent problem among pods that do not serve, else of missing ones."""
        return self._of(self.live) or self.not_made

    @property
    def crash_loop(self) -> Problem | None:
        """The crash loop some pods are in, with their count."""
        return self._of(tuple(pod for pod in self.live if pod.looping))

    @property
    def proxy_ailment(self) -> Problem | None:
        """What is wrong with the proxy, by the rule for engines: lack of room for more is not."""
        problem = self.proxy_problem
        is_only_room = problem is not None and problem.reason in _NO_ROOM and self.proxy_ready
        return None if is_only_room else problem

    def _of(self, pods: tuple[PodView, ...]) -> Problem | None:
        found = [pod.problem for pod in pods if pod.problem is not None]
        if not found:
            return None
        reason, count = Counter(each.reason for each in found).most_common(1)[0]
        first = next(each for each in found if each.reason == reason)
        return Problem(reason, f"{count} of {len(self.live)} pods: {first.message}")


def ready(sight: Sight) -> Verdict:
    """Whether the fleet serves with as many pods as wanted.

    Once it does, a scale-out in progress does not make it unready: the pods that served
    before still do.
    """
    return _hindered(sight) or _served(sight)


def _hindered(sight: Sight) -> Verdict | None:
    """What keeps the fleet from serving, with its cause."""
    count = sight.ready_count
    if sight.refused is not None and not count:
        return Verdict(FALSE, sight.refused.reason, sight.refused.message)
    if sight.problem is not None and not _is_only_room(sight):
        return Verdict(FALSE, sight.problem.reason, sight.problem.message)
    # Nobody meets the proxy while the Service leads past it.
    if sight.proxy_awaited:
        return None
    if sight.proxy_ailment is not None:
        return _of_proxy(FALSE, sight.proxy_ailment)
    if not sight.proxy_ready and count:
        return _of_proxy(FALSE, Problem("ProxyNotReady", "not ready yet"))
    return None


def _of_proxy(status: ConditionStatus, problem: Problem) -> Verdict:
    return Verdict(status, problem.reason, f"proxy: {problem.message}")


def _is_only_room(sight: Sight) -> bool:
    """Whether more pods find no room while enough serve: a limit, no failure of the fleet."""
    problem = sight.problem
    return problem is not None and problem.reason in _NO_ROOM and _serves_enough(sight)


def _serves_enough(sight: Sight) -> bool:
    wanted = sight.wanted or 0
    enough = min(wanted, sight.ready_before) if sight.was_ready else wanted
    return sight.wanted is not None and sight.ready_count >= max(1, enough)


def _served(sight: Sight) -> Verdict:
    count, wanted = sight.ready_count, sight.wanted or 0
    if sight.wanted == 0:
        return Verdict(TRUE, "ScaledToZero", "no replicas are wanted")
    if not _serves_enough(sight):
        hint = next((f"; {pod.hint}" for pod in sight.live if pod.hint), "")
        return Verdict(FALSE, "PodsNotReady", f"{count} of {wanted} pods are ready{hint}")
    # Where the Deployment is not ours, or nothing is done for now, no template is awaited.
    is_awaited = sight.refused is None and sight.template_hash
    if is_awaited and not any(
        p.ready for p in sight.live if p.template_hash == sight.template_hash
    ):
        return Verdict(FALSE, "RollingOut", "no pod of the new template serves yet")
    message = "the wanted pods are ready" if count >= wanted else "pods serve while more start"
    if sight.problem is not None:
        message = f"pods serve; {sight.problem.message}"
    rest = "; the proxy is kept at 0 replicas" if sight.proxy_at_rest else ""
    return Verdict(TRUE, "PodsReady", f"{message}{rest}")


def stalled(sight: Sight) -> Verdict | None:
    """What needs a person, if anything."""
    if sight.refused is not None:
        return Verdict(TRUE, sight.refused.reason, sight.refused.message)
    # Without a problem that is known, a pod may just be loading a large model.
    if sight.stuck and sight.problem is not None:
        return Verdict(TRUE, "ProgressDeadlineExceeded", sight.problem.message)
    if sight.rolled_out and sight.crash_loop is not None:
        return Verdict(TRUE, CRASH_LOOP, sight.crash_loop.message)
    if sight.proxy_stuck and sight.proxy_ailment is not None:
        return _of_proxy(TRUE, sight.proxy_ailment)
    return None


def reconciling(sight: Sight) -> Verdict | None:
    """What is under way, if anything."""
    return _moving(sight) or _short(sight) or _unheard(sight)


def _moving(sight: Sight) -> Verdict | None:
    if sight.rolling_out:
        return Verdict(TRUE, "RollingOut", "pods are being replaced")
    if sight.strays:
        names = ", ".join(sight.strays)
        text = f"drains though the operator did not ask, to be taken back into service: {names}"
        return Verdict(TRUE, "UndoingDrain", text)
    if sight.waiting is not None:
        return Verdict(TRUE, "ScalingIn", sight.waiting)
    return None


def _short(sight: Sight) -> Verdict | None:
    wanted = sight.wanted or 0
    if sight.ready_count < wanted:
        return Verdict(TRUE, "PodsStarting", "fewer pods are ready than wanted")
    if len(sight.live) > wanted or any(pod.deleting for pod in sight.pods):
        return Verdict(TRUE, "PodsLeaving", "more pods exist than wanted")
    if not sight.proxy_ready and wanted:
        past = "; until then the Service leads to the engines" if sight.proxy_awaited else ""
        return Verdict(TRUE, "ProxyStarting", f"the proxy is not ready yet{past}")
    return None


def _unheard(sight: Sight) -> Verdict | None:
    if not sight.deaf:
        return None
    text = (
        f"sent again, once a minute at most; live values are not taken by: {', '.join(sight.deaf)}"
    )
    return Verdict(TRUE, "TunablesNotTaken", text)


def metrics_fresh(sight: Sight) -> Verdict:
    """Whether enough of the serving pods were measured lately."""
    if sight.tick is None or not any(pod.serving for pod in sight.pods):
        return Verdict(UNKNOWN, "NoPods", "no pod serves, so there is nothing to measure")
    if sight.tick.data is DataClass.FRESH:
        return Verdict(TRUE, "Fresh", sight.unmeasured)
    why = f"; {sight.unmeasured}" if sight.unmeasured else ""
    if sight.tick.data is DataClass.STALE:
        return Verdict(FALSE, "Stale", f"measurements are old: knobs are held{why}")
    return Verdict(FALSE, ABSENT, f"no measurements: knobs are held, nothing is lowered{why}")


def slo_met(sight: Sight) -> Verdict:
    """Whether every objective holds over its window."""
    found = _judged(sight)
    if not sight.shortened:
        return found
    told = (
        f"judged over {MAX_WINDOW_SECONDS} s, the longest window, and not the windowSeconds of: "
        f"{', '.join(sight.shortened)}; write at most {MAX_WINDOW_SECONDS} there"
    )
    return Verdict(found.status, found.reason, "; ".join(filter(None, (found.message, told))))


def _judged(sight: Sight) -> Verdict:
    measured = sight.tick.slo if sight.tick is not None else ()
    if not measured:
        return Verdict(UNKNOWN, "NoObjective", "no objective is set or measured")
    missed = [each.name for each in measured if each.met is False]
    if missed:
        return Verdict(FALSE, "ObjectiveMissed", f"missed: {', '.join(missed)}{_slow(sight)}")
    if not any(each.samples for each in measured):
        return Verdict(UNKNOWN, "NoSamples", "no samples lately: there is nothing to judge by")
    unproven = [each.name for each in measured if each.met is None]
    if unproven:
        return Verdict(UNKNOWN, "TooFewSamples", f"not enough samples: {', '.join(unproven)}")
    return Verdict(TRUE, "ObjectivesMet", _slow(sight).removeprefix("; "))


def _slow(sight: Sight) -> str:
    """Pods that are much slower than their pool, in words."""
    estimate = sight.tick.estimate if sight.tick is not None else None
    slow = estimate.slow_pods if estimate is not None else {}
    told = ", ".join(f"{name} ({factor:.1f}x)" for name, factor in sorted(slow.items()))
    return f"; slower than their pool: {told}" if told else ""


def slo_feasible(sight: Sight) -> Verdict:
    """Whether the model says that the objectives can be met."""
    found = sight.tick.feasibility if sight.tick is not None else None
    if found is None or found.feasible is None:
        text = found.message if found is not None else ""
        return Verdict(UNKNOWN, "ModelLearning", text or "no trusted estimate yet")
    if found.feasible:
        return Verdict(TRUE, "Feasible", found.message)
    return Verdict(FALSE, "Infeasible", found.message)


def scaling_limited(sight: Sight) -> Verdict:
    """Whether something holds replicas away from what demand asks for."""
    limit = sight.tick.scaling_limit if sight.tick is not None else None
    if limit is None:
        return Verdict(FALSE, "NotLimited")
    until = ""
    if limit.expires_s is not None:
        expiry = timestamp(datetime.fromtimestamp(limit.expires_s, UTC))
        until = f" (until {expiry})" if expiry not in limit.message else ""
    return Verdict(TRUE, limit.reason.value, f"{limit.message}{until}")


def conflict(sight: Sight) -> Verdict:
    """Whether a knob has yielded to another, or someone else changes children or drains pods."""
    told = "; ".join(f"{knob} is left to {who}" for knob, who in sorted(sight.yielded.items()))
    parts = [f"{told}; resumed 10 minutes after it is gone"] if told else []
    if sight.contested:
        what = ", ".join(sight.contested)
        parts.append(f"changed again and again, put back at most once a minute: {what}")
    if sight.strayed:
        names = ", ".join(sight.strayed)
        parts.append(f"drained by someone else lately and taken back into service: {names}")
    if not parts:
        return Verdict(FALSE, "NoConflict")
    others = "ForeignChange" if sight.contested else "ForeignDrain"
    return Verdict(TRUE, "ForeignWriter" if told else others, "; ".join(parts))


def verdicts(sight: Sight) -> dict[ConditionType, Verdict]:
    """All conditions but `Reconciling` and `Stalled`, which are set together."""
    return {
        ConditionType.READY: ready(sight),
        ConditionType.METRICS_FRESH: metrics_fresh(sight),
        ConditionType.SLO_MET: slo_met(sight),
        ConditionType.SLO_FEASIBLE: slo_feasible(sight),
        ConditionType.SCALING_LIMITED: scaling_limited(sight),
        ConditionType.CONFLICT: conflict(sight),
    }
