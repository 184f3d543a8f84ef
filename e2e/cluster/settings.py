"""Where the cluster lives: directories, addresses and ports, read from the environment once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError

NAME = "paceline-e2e"
"""Prefix of every name the cluster gives: bridge, firewall chains, cgroup, containerd leases."""

BRIDGE = NAME
"""Linux bridge that carries the pods; the node's address is on it."""

# 198.18.0.0/15 is set aside for benchmarking and never routed, so neither range can collide.
POD_CIDR = "198.18.0.0/20"
POD_PREFIX_LENGTH = 20
NODE_IP = "198.18.0.1"
SERVICE_CIDR = "198.19.0.0/16"
API_SERVICE_IP = "198.19.0.1"
DNS_SERVICE_IP = "198.19.0.10"
CLUSTER_CIDR = "198.18.0.0/15"
CLUSTER_DOMAIN = "cluster.local"

PORTS: Mapping[str, int] = {
    "apiserver": 16443,
    "etcd": 16479,
    "etcd-peer": 16480,
    "kubelet": 16450,
    "kubelet-health": 16448,
    "controller-manager": 16457,
    "scheduler": 16459,
    "proxy-health": 16456,
    "proxy-metrics": 16449,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Choices of one invocation.

    Attributes:
        state: Directory that holds everything the cluster writes.
        cache: Directory of compiled programs, kept between clusters.
        provider: `built` or `existing`.
        context: Kubeconfig context of an existing cluster; empty for a built one.
        node: Name of the node.
        foreign_kubeconfig: File that names an existing cluster; unused for a built one.
    """

    state: Path
    cache: Path
    provider: str = "built"
    context: str = ""
    node: str = "paceline-node"
    foreign_kubeconfig: Path = Path()

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig to use: the administrator's, or the one that names an existing cluster."""
        if self.provider == "existing":
            return self.foreign_kubeconfig
        return self.state / "kubeconfig" / "admin.conf"

    @property
    def programs(self) -> Path:
        """Folder of the cluster's compiled programs."""
        return self.cache / "bin"

    @property
    def server(self) -> str:
        """URL of the API server, the same for host processes and pods."""
        return f"https://{NODE_IP}:{PORTS['apiserver']}"

    @property
    def containerd_socket(self) -> Path:
        """Socket on which containerd serves CRI and its own API."""
        return self.state / "run" / "containerd.sock"


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Reads the settings.

    Args:
        environment: `PACELINE_STATE`, `PACELINE_CACHE`, `PACELINE_CLUSTER` (`built` or
            `existing`) and `PACELINE_KUBE_CONTEXT` are looked up here.

    Raises:
        ClusterError: An unknown provider, or an existing cluster that is not named.
    """
    context = environment.get("PACELINE_KUBE_CONTEXT", "")
    provider = environment.get("PACELINE_CLUSTER", "existing" if context else "built")
    if provider not in {"built", "existing"}:
        raise ClusterError(
            f"PACELINE_CLUSTER={provider} is not a provider", "use `built` or `existing`"
        )
    if provider == "existing" and not context:
        raise ClusterError(
            "an existing cluster is used only when it is named",
            "set PACELINE_KUBE_CONTEXT to a context of your kubeconfig",
        )
    return Settings(
        # Resolved: what is deleted, and which mounts lie below, must not hang on a link.
        state=_directory(environment, "PACELINE_STATE", Path("/var/lib") / NAME).resolve(),
        cache=_directory(environment, "PACELINE_CACHE", Path.home() / ".cache" / "paceline"),
        provider=provider,
        context=context if provider == "existing" else "",
        foreign_kubeconfig=_foreign_kubeconfig(environment),
    )


def _foreign_kubeconfig(environment: Mapping[str, str]) -> Path:
    first = environment.get("KUBECONFIG", "").split(":")[0]
    return Path(first) if first else Path.home() / ".kube" / "config"


def _directory(environment: Mapping[str, str], name: str, default: Path) -> Path:
    path = Path(environment.get(name) or default).expanduser()
    if not path.is_absolute():
        raise ClusterError(f"{name}={path} is not an absolute path", "give the whole path")
    return path
