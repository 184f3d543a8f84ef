"""Kernel modules that the cluster needs and a stock machine may not have loaded."""

from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.commands import SYSTEM_PATH, attempt
from e2e.cluster.errors import ClusterError

_PROC = Path("/proc")

MODULES: Mapping[str, str] = {
    "overlay": "no container gets a root file system",
    "br_netfilter": "no Service is reached from a pod",
}
"""Modules, each with what fails without it; a kernel may have them built in."""


def missing(proc: Path = _PROC) -> list[str]:
    """Modules that are neither built in nor loaded."""
    present = {
        "overlay": "overlay" in (proc / "filesystems").read_text().split(),
        "br_netfilter": (proc / "sys/net/bridge/bridge-nf-call-iptables").exists(),
    }
    return [name for name in MODULES if not present[name]]


def load(name: str, proc: Path = _PROC) -> None:
    """Loads a module.

    Raises:
        ClusterError: It is still missing afterwards.
    """
    done = attempt(["modprobe", name], environment={"PATH": SYSTEM_PATH})
    if name in missing(proc):
        last = (done.stderr.strip().splitlines() or ["modprobe did nothing"])[-1]
        raise ClusterError(
            f"the kernel lacks {name}, without which {MODULES[name]}: {last}",
            f"install the modules of this kernel and `modprobe {name}`",
        )


def unload(name: str) -> None:
    """Takes a module away again, unless somebody else has come to use it."""
    attempt(["modprobe", "--remove", name], environment={"PATH": SYSTEM_PATH})
