"""The live knobs of one pass: what is agreed, who is behind, what the status may claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from paceline_operator.api.status import BudgetStatus
from paceline_operator.api.v1alpha1 import InferenceServiceSpec, Mode
from paceline_operator.autopilot.vocabulary.decision import SetTunables, Tick
from paceline_operator.autopilot.vocabulary.fleet import PodTunables, Trial, Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import policy_from_spec
from paceline_operator.domain import tunables
from paceline_operator.domain.contract import TUNABLES_FILE
from paceline_operator.domain.names import derive
from paceline_operator.domain.pods import PodView
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile.observed import Observed

OBJECTIVES = "objectives"
"""Key in the status' memory: mark of the objectives that go with the revision."""
TRIAL = "trial"
"""The same: the pod that has another budget under that revision."""


def present(seen: Observed, spec: InferenceServiceSpec) -> Agreed:
    """Live values in force by what the status, the ConfigMap and the spec say."""
    stored, first = _stored(seen), tunables.initial(spec)
    budget = seen.status.budget
    if budget.desired is None:
        return stored or first
    knobs = Tunables(
        max_num_batched_tokens=budget.desired,
        max_num_running_seqs=budget.running_seqs or first.knobs.max_num_running_seqs,
        step_time_target_ms=budget.step_time_target_ms,
    )
    return Agreed(budget.revision, knobs, spec.slos, _pushed_trial(seen))


def _pushed_trial(seen: Observed) -> Trial | None:
    found = (seen.status.memory or {}).get(TRIAL)
    try:
        return (
            None
            if not found
            else Trial(
                uid=str(found["uid"]), budget=int(found["budget"]), probes=bool(found.get("probes"))
            )
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def dump_trial(trial: Trial | None) -> dict[str, Any] | None:
    """A trial as JSON values, for the status."""
    return None if trial is None else asdict(trial)


def _pushed_mark(seen: Observed) -> str | None:
    """Mark of the objectives that go with the revision in force, None where none has yet."""
    mark = (seen.status.memory or {}).get(OBJECTIVES)
    stored = _stored(seen)
    if mark is None and stored is not None:
        return tunables.objectives_digest(stored.slos)
    return None if mark is None else str(mark)


def _stored(seen: Observed) -> Agreed | None:
    config = seen.children.get(("ConfigMap", derive(seen.name, "tunables"))) or {}
    return tunables.parse((config.get("data") or {}).get(TUNABLES_FILE))


def agree(
    seen: Observed,
    spec: InferenceServiceSpec,
    known: Agreed,
    knobs: Tunables | None,
    memory: Memory,
) -> tuple[Agreed, bool]:
    """Live values from now on, and whether they need a new revision.

    The revision goes on from the highest that the status or any engine knows, so an operator
    that lost its status is never behind its engines. One so high that there is none after it
    is not followed: its engine did not get it from here, and stays behind. A trial is part of a
    revision: one that begins or ends makes a new one, and so does an engine that was asked for
    another budget under this one, by a trial that nobody remembers.
    """
    squeezed = memory.squeezed_seqs is not None
    fitted = tunables.fitted(
        knobs or known.knobs, spec, squeezed=squeezed, seqs_ceiling=_seqs_ceiling(seen)
    )
    wanted = Agreed(known.revision, fitted, spec.slos, _trial(seen, spec, memory))
    reported = (report.revision for report in seen.reports.values())
    highest = max(filter(tunables.can_follow, reported), default=0)
    mark = _pushed_mark(seen)
    is_same = (
        (wanted.knobs, wanted.trial) == (known.knobs, known.trial)
        and mark in (None, tunables.objectives_digest(spec.slos))
        and not _astray(seen, wanted)
    )
    if is_same and highest <= known.revision:
        return wanted, seen.status.budget.desired is None
    return replace(wanted, revision=max(known.revision, highest) + 1), True


def _seqs_ceiling(seen: Observed) -> int | None:
    """What the least of the live pods allows, None while none has said.

    Also of those that do not serve now: what an engine takes is fixed at its start, and a pod that
    misses a probe comes back with it.
    """
    live = (pod.uid for pod in seen.pods if pod.live)
    found = (seen.reports[uid].running_ceiling for uid in live if uid in seen.reports)
    return min(found, default=None)


def _trial(seen: Observed, spec: InferenceServiceSpec, memory: Memory) -> Trial | None:
    """The trial that memory knows of, while its pod lives and the spec allows it."""
    trial, policy = memory.trial, policy_from_spec(spec)
    if trial is None or policy.tuning_mode is not Mode.AUTO or trial.budget > policy.batch_max:
        return None
    return trial if any(pod.uid == trial.uid and pod.live for pod in seen.pods) else None


def _astray(seen: Observed, agreed: Agreed) -> bool:
    """Whether an engine was asked for another budget under this very revision.

    Not that of the pod that tries one: a container of it that started anew has the agreed values,
    and the autopilot ends the trial.
    """
    tries = "" if agreed.trial is None else agreed.trial.uid
    return any(
        report.revision == agreed.revision
        and report.requested not in (0, agreed.knobs.max_num_batched_tokens)
        for uid, report in seen.reports.items()
        if agreed.revision and uid != tries
    )


def wanted(tick: Tick | None) -> Tunables | None:
    """Live knobs a tick asks for, None where it leaves them."""
    actions = tick.actions if tick is not None else ()
    found = [each for each in actions if isinstance(each, SetTunables)]
    return found[-1].tunables if found else None


def behind(seen: Observed, agreed: Agreed) -> tuple[PodView, ...]:
    """Pods whose engine reports other values, and has not just refused or ignored these."""
    return tuple(
        pod
        for pod in seen.pods
        if pod.live and pod.ip is not None
        and (report := seen.reports.get(pod.uid)) is not None
        and not tunables.runs_with(report, agreed.of_pod(pod.uid))
        and not _tries_no_more(pod, report, agreed)
        and seen.now_s >= seen.waits.get(pod.uid, 0.0)
    )  # fmt: skip


def _tries_no_more(pod: PodView, report: PodTunables, agreed: Agreed) -> bool:
    """Whether the pod that tries a budget has started anew, with the values of all.

    It has them under the revision of the trial: it would refuse others under the same. The
    autopilot ends the trial when it sees that, and the next revision reaches the pod at once.
    """
    trial = agreed.trial
    return (
        trial is not None
        and trial.uid == pod.uid
        and report.revision == agreed.revision
        and report.requested == agreed.knobs.max_num_batched_tokens != trial.budget
    )


def budget_status(seen: Observed, agreed: Agreed | None) -> BudgetStatus:
    """The live knobs as the status shows them: what engines report, not what was hoped."""
    if agreed is None:
        return seen.status.budget
    ready = [pod for pod in seen.pods if pod.live and pod.ready]
    reports = {pod.uid: seen.reports[pod.uid] for pod in ready if pod.uid in seen.reports}
    acknowledged = {
        uid: each for uid, each in reports.items() if tunables.runs_with(each, agreed.of_pod(uid))
    }
    stored = seen.status.budget
    if seen.is_settling and len(reports) < len(ready) and stored.revision == agreed.revision:
        return stored  # engines that have not answered this process yet did answer the last
    return BudgetStatus(
        revision=agreed.revision,
        desired=agreed.knobs.max_num_batched_tokens,
        effective=min(_effective(agreed, acknowledged), default=None),
        running_seqs=agreed.knobs.max_num_running_seqs,
        step_time_target_ms=agreed.knobs.step_time_target_ms,
        acknowledged=len(acknowledged),
        total=len(ready),
    )


def _effective(agreed: Agreed, reports: Mapping[str, PodTunables]) -> list[int]:
    """Budgets in force; that of the pod that tries another one only where it is alone."""
    tries = "" if agreed.trial is None else agreed.trial.uid
    usual = [each.effective for uid, each in reports.items() if uid != tries]
    return usual or [each.effective for each in reports.values()]


def for_start(seen: Observed, agreed: Agreed) -> Agreed:
    """What a starting engine reads: the newest values that every serving engine runs with."""
    budget = budget_status(seen, agreed)
    stored = _stored(seen)
    return agreed if stored is None or budget.acknowledged >= budget.total else stored
