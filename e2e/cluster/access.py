"""kubectl on the configured cluster, and exclusive use of this machine's cluster."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.errors import ClusterError, MissingToolError
from e2e.cluster.settings import Settings
from e2e.kubectl import Kubectl


def kubectl(settings: Settings, namespace: str = "default") -> Kubectl:
    """Kubectl as the cluster's administrator, or on the named context of an existing one.

    Raises:
        MissingToolError: It is neither built nor, for an existing cluster, on PATH.
    """
    context = settings.context or None
    return Kubectl(_program(settings), settings.kubeconfig, namespace, context)


@contextmanager
def exclusive(settings: Settings) -> Iterator[None]:
    """Holds the cluster of this cache against other invocations that would change it.

    Raises:
        ClusterError: Another one is at work.
    """
    settings.cache.mkdir(parents=True, exist_ok=True)
    with (settings.cache / "cluster.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                "another `up` or `down` is at work", "wait until it has ended"
            ) from None
        yield


def _program(settings: Settings) -> Path:
    built = binaries.link_directory(settings.cache) / "kubectl"
    if built.exists():
        return built
    if settings.provider == "built":
        raise MissingToolError(f"kubectl is not built ({built})", "run `make cluster-build`")
    found = shutil.which("kubectl")
    if found is None:
        raise MissingToolError("kubectl is not on PATH", "install it, or run `make cluster-build`")
    return Path(found)
