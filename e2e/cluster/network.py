"""The bridge of the pods, and the kernel settings that the cluster changes and gives back."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from e2e.cluster.commands import attempt, run
from e2e.cluster.errors import ClusterError
from e2e.cluster.settings import BRIDGE, NODE_IP, POD_PREFIX_LENGTH

# A fixed address: otherwise the bridge takes the lowest of its ports' and changes it with them.
_BRIDGE_MAC = "02:70:61:63:65:01"

_SYSCTL = Path("/proc/sys")
_LINKS = Path("/sys/class/net")

NEEDED_SETTINGS: Mapping[str, str] = {
    "net/ipv4/ip_forward": "1",
    "net/bridge/bridge-nf-call-iptables": "1",
}
"""What forwarding between pods and Services needs."""

CHANGED_SETTINGS = (
    *NEEDED_SETTINGS,
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv6/conf/all/forwarding",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""What the cluster, its kubelet and its kube-proxy write."""


def create(state: Path) -> None:
    """Makes the bridge with the node's address, which the API server advertises.

    Args:
        state: State directory of the cluster; the bridge is labelled with it.

    Raises:
        ClusterError: The kernel lacks a setting without which pods reach no Service.
    """
    if not exists():
        run(["ip", "link", "add", BRIDGE, "address", _BRIDGE_MAC, "type", "bridge"])
    address = f"{NODE_IP}/{POD_PREFIX_LENGTH}"
    if NODE_IP not in addresses():
        run(["ip", "address", "add", address, "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "alias", str(state)])
    run(["ip", "link", "set", BRIDGE, "up"])
    for name, value in NEEDED_SETTINGS.items():
        _write_setting(name, value)
    require_settings(read_settings())


def remove() -> None:
    """Deletes the bridge and the interfaces that hang on it."""
    if not exists():
        return
    for port in _links("master", BRIDGE):
        attempt(["ip", "link", "delete", port])
    run(["ip", "link", "delete", BRIDGE])


def exists() -> bool:
    """Whether the bridge is there."""
    return attempt(["ip", "link", "show", "dev", BRIDGE]).returncode == 0


def owner() -> str:
    """State directory of the cluster whose bridge this is; empty without bridge or label."""
    with suppress(OSError):
        return (_LINKS / BRIDGE / "ifalias").read_text().strip()
    return ""


def require_settings(present: Mapping[str, str]) -> None:
    """Checks that every needed setting is in force.

    Raises:
        ClusterError: One is not, or does not exist.
    """
    for name, value in NEEDED_SETTINGS.items():
        if present.get(name) != value:
            raise ClusterError(
                f"/proc/sys/{name} is {present.get(name, 'missing')}, not {value}",
                "load the kernel's br_netfilter, and let this process write settings",
            )


def interfaces() -> list[str]:
    """Names of all interfaces."""
    return sorted(_links())


def addresses() -> dict[str, str]:
    """Interface of every IPv4 address of this machine."""
    shown: list[dict[str, Any]] = json.loads(run(["ip", "-j", "-4", "address", "show"]))
    return {info["local"]: link["ifname"] for link in shown for info in link.get("addr_info", [])}


def foreign_address(prefixes: tuple[str, ...] = ("198.18.", "198.19.")) -> str:
    """An address of another interface inside the cluster's ranges, or nothing."""
    for address, interface in addresses().items():
        if address.startswith(prefixes) and interface != BRIDGE:
            return f"{address} on {interface}"
    return ""


def read_settings() -> dict[str, str]:
    """Present values of the kernel settings that the cluster changes."""
    found = {}
    for name in CHANGED_SETTINGS:
        with suppress(OSError):
            found[name] = (_SYSCTL / name).read_text().strip()
    return found


def restore_settings(values: Mapping[str, str]) -> None:
    """Writes back what differs."""
    present = read_settings()
    for name, value in values.items():
        if name in CHANGED_SETTINGS and present.get(name) != value:
            _write_setting(name, value)


def _write_setting(name: str, value: str) -> None:
    # Absent where the kernel lacks a feature; the needed ones are checked afterwards.
    with suppress(FileNotFoundError):
        (_SYSCTL / name).write_text(value)


def _links(*filters: str) -> list[str]:
    shown: list[dict[str, Any]] = json.loads(run(["ip", "-j", "link", "show", *filters]) or "[]")
    return [link["ifname"] for link in shown if link]
