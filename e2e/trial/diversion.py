"""Leads an operator's connections to one port of one engine elsewhere: faults between the two.

The rule is made in the network namespace of the operator's pod, so it concerns nobody else and
is gone with the pod, whatever becomes of this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from e2e import interruption
from e2e.cluster.commands import SYSTEM_PATH, attempt
from e2e.cluster.settings import NODE_IP
from e2e.smoke.site import SmokeError

_ENVIRONMENT = {"PATH": SYSTEM_PATH}


@dataclass(frozen=True, slots=True)
class Diversion:
    """One engine's port, and where connections to it end instead.

    Attributes:
        pod_ip: The engine.
        port: Its port.
        to_port: Port on the node.
    """

    pod_ip: str
    port: int
    to_port: int

    def rule(self, action: str) -> list[str]:
        """Words for iptables that add (`-A`) or remove (`-D`) it."""
        match = ["-p", "tcp", "-d", self.pod_ip, "--dport", str(self.port)]
        target = ["-j", "DNAT", "--to-destination", f"{NODE_IP}:{self.to_port}"]
        return ["iptables", "-w", "-t", "nat", action, "OUTPUT", *match, *target]

    def forget(self) -> list[str]:
        """Words that have open connections judged anew, which then break."""
        return ["conntrack", "-D", "-p", "tcp", "-d", self.pod_ip, "--dport", str(self.port)]


@contextmanager
def diverted(processes: Sequence[int], diversion: Diversion) -> Iterator[None]:
    """Diverts what the pods of these processes send, until the block ends.

    Args:
        processes: One process of each pod.
        diversion: What goes where.

    Raises:
        SmokeError: A rule could not be made.
    """
    try:
        for pid in processes:
            _inside(pid, diversion.rule("-A"), must=True)
            _inside(pid, diversion.forget(), must=False)
        yield
    finally:
        with interruption.held_off():
            for pid in processes:
                # A pod that has ended took its rules with it.
                _inside(pid, diversion.rule("-D"), must=False)
                _inside(pid, diversion.forget(), must=False)


def _inside(pid: int, words: Sequence[str], *, must: bool) -> None:
    done = attempt(["nsenter", "-t", str(pid), "-n", *words], environment=_ENVIRONMENT)
    if must and done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SmokeError(f"connections could not be diverted: {last}")
