"""Waits for what the API server says about the cluster."""

import time
from collections.abc import Callable

from e2e.cluster import access
from e2e.cluster.errors import StartError
from e2e.cluster.settings import Settings
from e2e.kubectl import KubectlError

_POLL_S = 0.2


def node_is_ready(settings: Settings) -> bool:
    """Whether the node says Ready."""
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    try:
        shown = access.kubectl(settings).run("get", "node", settings.node, "-o", path, timeout_s=10)
    except KubectlError:
        return False
    return shown.strip() == "True"


def wait_node(settings: Settings, patience_s: float = 60.0) -> None:
    """Waits until the node is Ready.

    Raises:
        StartError: It was not in time.
    """
    _wait(lambda: node_is_ready(settings), f"node {settings.node}", patience_s)


def wait_namespace(settings: Settings, name: str, patience_s: float = 30.0) -> None:
    """Waits until a namespace exists.

    Raises:
        StartError: It was not made in time.
    """

    def exists() -> bool:
        try:
            access.kubectl(settings).run("get", "namespace", name, timeout_s=10)
        except KubectlError:
            return False
        return True

    _wait(exists, f"namespace {name}", patience_s)


def _wait(met: Callable[[], bool], what: str, patience_s: float) -> None:
    limit = time.monotonic() + patience_s
    while not met():
        if time.monotonic() > limit:
            raise StartError(
                f"{what} not ready within {patience_s:.0f} s", "see `make cluster-status`"
            )
        time.sleep(_POLL_S)
