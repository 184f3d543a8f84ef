"""Where faults are done: cluster, namespaces, a fleet, and waiting for what should become true."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.cluster.settings import Settings
from e2e.job import PodHost
from e2e.kubectl import Kubectl, KubectlError

NAME = "smoke"
SELECTOR = f"paceline.dev/service={NAME}"
POLL_S = 0.5


class SmokeError(Exception):
    """Something that must hold does not; the text says what."""


@dataclass(frozen=True, slots=True)
class Site:
    """One run against one fleet.

    Attributes:
        settings: The cluster's.
        kubectl: Namespace of the fleet.
        system: Namespace of the operator.
        host: How the load generator's pod runs.
        name: The fleet's.
    """

    settings: Settings
    kubectl: Kubectl
    system: Kubectl
    host: PodHost
    name: str = NAME

    def service(self) -> dict[str, Any]:
        """The InferenceService as it is now."""
        found: dict[str, Any] = self.kubectl.json("get", "inferenceservice", self.name)
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        """One of its conditions; empty where it is not set."""
        conditions = self.service().get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def engine_pods(self) -> list[dict[str, Any]]:
        """Pods of the fleet that are not leaving."""
        selector = self.service().get("status", {}).get("selector", "")
        pods = self.kubectl.json("get", "pods", "-l", selector or "none=none")["items"]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def until(what: str, holds: Callable[[], bool], timeout_s: float) -> float:
    """Waits until `holds` and returns how long that took, in seconds.

    Raises:
        SmokeError: It did not within `timeout_s`; `what` names it.
    """
    started = time.monotonic()
    last = ""
    while time.monotonic() - started < timeout_s:
        try:
            if holds():
                return time.monotonic() - started
        except KubectlError as error:
            last = f" ({error})"
        time.sleep(POLL_S)
    raise SmokeError(f"{what}: not within {timeout_s:.0f} s{last}")
