"""Pods whose containers keep ending: also in the moments in which they run and are ready."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from paceline_operator.domain.pods import (
    BACK_OFF,
    CRASH_LOOP,
    PodView,
    Problem,
    containers,
    ending,
    seconds,
)

MIN_RESTARTS = 3
FORGOTTEN_S = 600.0
"""After a run this long a kubelet begins anew, too: what ended before is no loop with it."""
STEADY_S = 60.0
STEADY_RUNS = 2.0


def marked(
    views: Iterable[PodView],
    items: Iterable[Mapping[str, Any]],
    now_s: float,
    forgiven: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[PodView, ...]:
    """Pods with those marked that are in a crash loop; for these that is their problem.

    Args:
        views: Pods.
        items: Their objects, and maybe others.
        now_s: Moment of the pass.
        forgiven: What `remembered` tells.
    """
    statuses = {item["metadata"]["uid"]: item.get("status") or {} for item in items}
    past = forgiven or {}
    found = ((pod, found_in(statuses.get(pod.uid, {}), now_s, past.get(pod.uid))) for pod in views)
    return tuple(
        pod if loop is None else replace(pod, problem=loop, looping=True) for pod, loop in found
    )


def remembered(
    known: Mapping[str, Mapping[str, int]], items: Iterable[Mapping[str, Any]], now_s: float
) -> dict[str, dict[str, int]]:
    """UID of a pod -> restarts of its containers that a long run has made up for.

    A kubelet shows the last run alone: that one before it was long must be remembered.

    Args:
        known: As before.
        items: All pods that exist; others are forgotten.
        now_s: Moment of the pass.
    """
    made = {}
    for item in items:
        uid = item["metadata"]["uid"]
        found = {**known.get(uid, {}), **forgiven_in(item.get("status") or {}, now_s)}
        if any(found.values()):
            made[uid] = found
    return made


def found_in(
    status: Mapping[str, Any], now_s: float, forgiven: Mapping[str, int] | None = None
) -> Problem | None:
    """The crash loop a pod is in, with the last words of what ended.

    It begins with the third restart since a run of ten minutes, and ends once a run has outlasted
    the one before it by far: no sooner than after a minute, no later than a kubelet forgets. One
    that is ready serves: there a minute is enough, so that only a flicker is no end.

    Args:
        status: Status of the pod.
        now_s: Moment of the pass.
        forgiven: Container -> restarts that a run of ten minutes has made up for.
    """
    for container in containers(status):
        past = (forgiven or {}).get(str(container.get("name", "")), 0)
        if _is_looping(container, past, now_s):
            said = ending(container, _last_end(container))
            return Problem(
                CRASH_LOOP, f"container {container.get('name', '')} keeps ending: {said}"
            )
    return None


def forgiven_in(status: Mapping[str, Any], now_s: float) -> dict[str, int]:
    """Container -> restarts that lie before a run of ten minutes, where one is to be seen."""
    seen = {str(each.get("name", "")): _forgiven(each, now_s) for each in containers(status)}
    return {name: count for name, count in seen.items() if count is not None}


def _forgiven(container: Mapping[str, Any], now_s: float) -> int | None:
    count = int(container.get("restartCount", 0))
    state = container.get("state") or {}
    began_s = seconds((state.get("running") or {}).get("startedAt"))
    ended_now = state.get("terminated") or {}
    if (began_s is not None and now_s - began_s >= FORGOTTEN_S) or _ran_s(ended_now) >= FORGOTTEN_S:
        return count
    last = (container.get("lastState") or {}).get("terminated") or {}
    if _ran_s(last) < FORGOTTEN_S:
        return None
    # The run that ended is counted as restarted once the next one is made.
    return max(0, count - 1)


def _is_looping(container: Mapping[str, Any], past: int, now_s: float) -> bool:
    state, ended = container.get("state") or {}, _last_end(container)
    if int(container.get("restartCount", 0)) - past < MIN_RESTARTS:
        return False
    if (state.get("waiting") or {}).get("reason") == BACK_OFF:
        return True
    if not ended or _is_done(container, state) or _ran_s(ended) >= FORGOTTEN_S:
        return False
    began_s = seconds((state.get("running") or {}).get("startedAt"))
    steady_s = min(FORGOTTEN_S, max(STEADY_S, STEADY_RUNS * _ran_s(ended)))
    if container.get("ready"):
        steady_s = STEADY_S
    return began_s is None or now_s - began_s < steady_s


def _last_end(container: Mapping[str, Any]) -> Mapping[str, Any]:
    now = (container.get("state") or {}).get("terminated") or {}
    return now or (container.get("lastState") or {}).get("terminated") or {}


def _is_done(container: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether an init container has done its work: it ended well and is ready for good."""
    now = state.get("terminated") or {}
    return bool(now) and not now.get("exitCode") and bool(container.get("ready"))


def _ran_s(ended: Mapping[str, Any]) -> float:
    """How long a run took; 0 for one that never began, which has a start of 1970 or none."""
    began_s, finished_s = seconds(ended.get("startedAt")), seconds(ended.get("finishedAt"))
    return finished_s - began_s if began_s and finished_s else 0.0
