"""Live pods of a fleet, read from their objects: what serves, what starts, what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from paceline_operator.domain.compute import granted
from paceline_operator.domain.names import (
    ANNOTATION_DRAINING,
    ANNOTATION_TEMPLATE,
    ENGINE,
    LABEL_COMPONENT,
)

UNSCHEDULABLE = "Unschedulable"
CRASH_LOOP = "CrashLoop"
BACK_OFF = "CrashLoopBackOff"
FINISHED = frozenset({"Succeeded", "Failed"})
_IMAGE_REASONS = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"}
)
_CONFIG_REASONS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
_NOT_MADE_YET = frozenset({"ContainerCreating", "PodInitializing"})
_MOST_SAID = 400


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a pod does not serve, in the words of the condition `Ready`."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """What matters of one pod.

    Attributes:
        name: Its name.
        uid: Its UID.
        ip: Its address, None before it has one.
        created_s: Creation, seconds since the epoch.
        ready: Whether it serves.
        ready_since_s: When it last became ready.
        unready_since_s: When it last ceased to be.
        deleting: Whether it has been told to go.
        finished: Whether it ended and will not come back.
        template_hash: Template it was made from.
        resources: What its engine has of the node; empty where that is not told.
        incarnation: UID and restarts: another value is another process.
        draining_since_s: Mark of a drained scale-in, None without one.
        problem: What keeps it from serving, where that is known.
        looping: Whether it is in a crash loop, though it may be ready for a moment.
        creating_since_s: Since when it has a node and none of its containers, else None.
        hint: What to say of it where it is late for no known problem.
        version: resourceVersion.
    """

    name: str
    uid: str
    ip: str | None = None
    created_s: float = 0.0
    ready: bool = False
    ready_since_s: float | None = None
    unready_since_s: float | None = None
    deleting: bool = False
    finished: bool = False
    template_hash: str = ""
    resources: str = ""
    incarnation: str = ""
    draining_since_s: float | None = None
    problem: Problem | None = None
    looping: bool = False
    creating_since_s: float | None = None
    hint: str = ""
    version: str = ""

    @property
    def live(self) -> bool:
        """Whether it counts as a replica."""
        return not (self.deleting or self.finished)

    @property
    def serving(self) -> bool:
        """Whether it takes requests and goes on doing so."""
        return self.live and self.ready and self.draining_since_s is None


def read_pods(items: Iterable[Mapping[str, Any]]) -> tuple[PodView, ...]:
    """Views of the engine pods among some pods, oldest first."""
    engines = (item for item in items if component(item) == ENGINE)
    return tuple(sorted(map(read_pod, engines), key=lambda pod: (pod.created_s, pod.name)))


def component(item: Mapping[str, Any]) -> str | None:
    """What part of a fleet a pod is labelled as; None where someone took the label off."""
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels.get(LABEL_COMPONENT)


def read_pod(item: Mapping[str, Any]) -> PodView:
    """View of one pod object."""
    metadata, status = item["metadata"], item.get("status") or {}
    annotations = metadata.get("annotations") or {}
    ready = _condition(status, "Ready")
    is_ready, changed_s = ready.get("status") == "True", seconds(ready.get("lastTransitionTime"))
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        ip=status.get("podIP"),
        created_s=seconds(metadata.get("creationTimestamp")) or 0.0,
        ready=is_ready,
        ready_since_s=changed_s if is_ready else None,
        unready_since_s=None if is_ready else changed_s,
        deleting=bool(metadata.get("deletionTimestamp")),
        finished=status.get("phase") in FINISHED,
        template_hash=annotations.get(ANNOTATION_TEMPLATE, ""),
        resources=granted(item),
        incarnation=f"{metadata['uid']}/{_restarts(status)}",
        draining_since_s=seconds(annotations.get(ANNOTATION_DRAINING)),
        problem=None if is_ready else _problem(status),
        creating_since_s=None if is_ready else _creating_since_s(status),
        version=str(metadata.get("resourceVersion", "")),
    )


def template_hash(deployment: Mapping[str, Any] | None) -> str:
    """Template a Deployment makes pods from; empty where it is none of ours."""
    template = ((deployment or {}).get("spec") or {}).get("template") or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(ANNOTATION_TEMPLATE, ""))


def seconds(text: str | None) -> float | None:
    """A moment as the API writes it in seconds since the epoch; None where it is none."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def one_line(text: str) -> str:
    """Someone else's text, short and in one line."""
    said = " ".join(text.split())
    return said if len(said) <= _MOST_SAID else said[: _MOST_SAID - 1] + "…"


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found = (each for each in status.get("conditions") or () if each.get("type") == kind)
    return next(found, {})


def containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Statuses of all containers of a pod."""
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


def _restarts(status: Mapping[str, Any]) -> int:
    return sum(int(each.get("restartCount", 0)) for each in status.get("containerStatuses") or ())


def _creating_since_s(status: Mapping[str, Any]) -> float | None:
    """Volumes, images and the sandbox come before the first container."""
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") != "True" or status.get("phase", "Pending") != "Pending":
        return None
    states = ((each.get("state") or {}).get("waiting") or {} for each in containers(status))
    if not all(waiting.get("reason") in _NOT_MADE_YET for waiting in states):
        return None
    return seconds(scheduled.get("lastTransitionTime"))


def _problem(status: Mapping[str, Any]) -> Problem | None:
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == UNSCHEDULABLE:
        return Problem(UNSCHEDULABLE, str(scheduled.get("message", "")))
    ready = _condition(status, "Ready")
    for container in containers(status):
        found = _container_problem(container, ready)
        if found is not None:
            return found
    return None


def _container_problem(container: Mapping[str, Any], ready: Mapping[str, Any]) -> Problem | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = str(waiting.get("reason", ""))
    name = container.get("name", "")
    if reason in _IMAGE_REASONS or reason in _CONFIG_REASONS:
        said = one_line(str(waiting.get("message") or ""))
        return Problem(reason, f"container {name}: {said}".rstrip(": "))
    ended = _ended(container)
    if reason == BACK_OFF or (ended and not _has_served(ended, ready)):
        return Problem(CRASH_LOOP, f"container {name} keeps ending: {ending(container, ended)}")
    if ended:
        return Problem("Restarted", f"container {name} ended: {ending(container, ended)}")
    return None


def _ended(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a container that is not ready ended last; empty where it has not, or is done.

    It waits only for a part of the time between two runs: it also is ended, or runs again.
    """
    now = (container.get("state") or {}).get("terminated") or {}
    if container.get("ready") or (now and not now.get("exitCode")):
        return {}
    return now or (container.get("lastState") or {}).get("terminated") or {}


def _has_served(ended: Mapping[str, Any], ready: Mapping[str, Any]) -> bool:
    """Whether a pod that is unready now was ready during the run that ended."""
    unready_s, began_s = seconds(ready.get("lastTransitionTime")), seconds(ended.get("startedAt"))
    return unready_s is not None and began_s is not None and unready_s > began_s


def ending(container: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    """How a container ended, in words, and how often.

    Args:
        container: Its status.
        ended: The `terminated` state meant, empty where none is known.
    """
    parts = [f"exit code {ended['exitCode']}"] if "exitCode" in ended else []
    if ended.get("reason") not in (None, "Error", "Completed"):
        parts.append(str(ended["reason"]))
    # The end of the log, where nothing else was left: its last line says why.
    lines = [line for line in str(ended.get("message") or "").splitlines() if line.strip()]
    if lines:
        parts.append(one_line(lines[-1]))
    restarts = int(container.get("restartCount", 0))
    return ", ".join([*parts, f"{restarts} restart" if restarts == 1 else f"{restarts} restarts"])
