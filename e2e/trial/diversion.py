"""Leads an operator's connections to one port of engines elsewhere: faults between the two.

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
    """A port of engines, and where connections to it end instead.

    Attributes:
        pod_ip: The engine, None for all there are and will be.
        port: Its port.
        to_port: Port on the node.
    """

    pod_ip: str | None
    port: int
    to_port: int

    def rules(self, action: str) -> list[list[str]]:
        """Words for iptables that add (`-A`) or remove (`-D`) it, one list a rule."""
        where = [] if self.pod_ip is None else ["-d", self.pod_ip]
        to_engine = ["-p", "tcp", *where, "--dport", str(self.port)]
        lead = ["-j", "DNAT", "--to-destination", f"{NODE_IP}:{self.to_port}"]
        # What is still on its way to the engine belongs to a connection from before.
        end = ["-j", "REJECT", "--reject-with", "tcp-reset"]
        return [
            ["iptables", "-w", "-t", "nat", action, "OUTPUT", *to_engine, *lead],
            ["iptables", "-w", "-t", "filter", action, "OUTPUT", *to_engine, *end],
        ]


@contextmanager
def diverted(processes: Sequence[int], diversion: Diversion) -> Iterator[None]:
    """Diverts what the pods of these processes send, until the block ends.

    Connections that are open are reset, so that whoever uses them connects anew.

    Args:
        processes: One process of each pod.
        diversion: What goes where.

    Raises:
        SmokeError: A rule could not be made.
    """
    try:
        for pid in processes:
            for rule in diversion.rules("-A"):
                _inside(pid, rule, must=True)
        yield
    finally:
        with interruption.held_off():
            for pid in processes:
                for rule in diversion.rules("-D"):
                    # A pod that has ended took its rules with it.
                    _inside(pid, rule, must=False)


def _inside(pid: int, words: Sequence[str], *, must: bool) -> None:
    done = attempt(["nsenter", "-t", str(pid), "-n", *words], environment=_ENVIRONMENT)
    if must and done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SmokeError(f"connections could not be diverted: {last}")
