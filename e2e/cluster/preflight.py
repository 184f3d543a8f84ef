"""What a machine must offer before the cluster starts; each lack is one line with its remedy."""

import os
import socket
from pathlib import Path

from e2e.cluster import binaries, cgroups, debian, firewall, network
from e2e.cluster.commands import attempt
from e2e.cluster.errors import ClusterError, ForeignClusterError, PortInUseError
from e2e.cluster.settings import CLUSTER_CIDR, PORTS, Settings

_PROGRAMS = ("kubebox", "containerd", "containerd-shim-runc-v2", "ctr", "pause")
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SYS_ADMIN": 21}
_CAP_SYS_RESOURCE = 24


def check(settings: Settings) -> None:
    """Checks rights, programs, ports and address ranges of a machine without the cluster.

    Raises:
        ClusterError: Something is missing or taken.
    """
    _check_rights()
    debian.require_packages()
    for program in _PROGRAMS:
        binaries.require(settings.cache, program)
    _check_kernel()
    _check_foreign()
    for name, port in PORTS.items():
        _check_port(name, port)


def may_adjust_oom_score(status: Path = Path("/proc/self/status")) -> bool:
    """Whether this process may lower a score, which containers' start-up tries."""
    return bool(effective_capabilities(status) >> _CAP_SYS_RESOURCE & 1)


def effective_capabilities(status: Path = Path("/proc/self/status")) -> int:
    """Bit set of the capabilities in force."""
    lines = status.read_text().splitlines()
    return int(next(line for line in lines if line.startswith("CapEff:")).split()[1], 16)


def _check_rights() -> None:
    if os.geteuid() != 0:
        raise ClusterError("the cluster needs root", "run the same command with sudo")
    present = effective_capabilities()
    missing = [name for name, bit in _CAPABILITIES.items() if not present >> bit & 1]
    if missing:
        raise ClusterError(
            f"this process lacks {', '.join(missing)}", "run it on the machine, not in a container"
        )


def _check_kernel() -> None:
    if not cgroups.MOUNT.is_dir() or not cgroups.hierarchies():
        raise ClusterError("/sys/fs/cgroup is not mounted", "mount the control groups")
    for hierarchy in cgroups.hierarchies():
        if not os.access(hierarchy, os.W_OK):
            raise ClusterError(f"{hierarchy} is read-only", "mount the control groups writable")
    for table in ("nat", "filter"):
        done = attempt(["iptables", "-t", table, "-S"])
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ClusterError(f"iptables does not work: {last}", "load the kernel's netfilter")


def _check_foreign() -> None:
    kubernetes = [c for c in firewall.chains() if c.name.startswith(firewall.KUBERNETES_PREFIX)]
    if kubernetes:
        raise ForeignClusterError(
            f"another Kubernetes node runs here (chain {min(kubernetes).name})",
            "use it by PACELINE_KUBE_CONTEXT, or remove its firewall rules",
        )
    if taken := network.foreign_address():
        raise ForeignClusterError(
            f"the cluster's range {CLUSTER_CIDR} is in use: {taken}",
            "take that interface away",
        )


def _check_port(name: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - asks about every address, serves none
        except OSError:
            raise PortInUseError(
                f"port {port} ({name}) is in use",
                f"end the process that `ss -ltnp 'sport = :{port}'` shows",
            ) from None
