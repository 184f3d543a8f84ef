"""How much of the machine was used by others than the demo."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class _Reading:
    total_s: float
    busy_s: float
    own_s: float
    inside_s: Mapping[tuple[int, float], float]


class HostMeter:
    """Measures from its making on; `outside` may be called any number of times.

    Processes are told apart by ancestry, by the folder of their program, and by the pod in
    their control group. Interrupt time is nobody's.

    Attributes:
        programs: Folder of the cluster's compiled programs.
    """

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self._start = self._read()
        self._inside: dict[tuple[int, float], float] = {}

    def outside(self) -> float:
        """Share of all cores used so far by neither the demo, nor the cluster, nor a pod."""
        now = self._read()
        self._inside.update(now.inside_s)
        spent = sum(
            seconds - self._start.inside_s.get(key, 0.0) for key, seconds in self._inside.items()
        )
        total = max(1e-9, now.total_s - self._start.total_s)
        busy = now.busy_s - self._start.busy_s
        inside = spent + now.own_s - self._start.own_s
        return max(0.0, busy - inside) / total

    def _read(self) -> _Reading:
        times = psutil.cpu_times()
        interrupts = times.irq + times.softirq
        busy_s = times.user + times.nice + times.system
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return _Reading(
            total_s=busy_s + interrupts + times.idle + times.iowait + times.steal,
            busy_s=busy_s,
            own_s=children.ru_utime + children.ru_stime,
            inside_s=self._inside_processes(),
        )

    def _inside_processes(self) -> dict[tuple[int, float], float]:
        found = {}
        for process in psutil.process_iter():
            try:
                if self._is_inside(process):
                    used = process.cpu_times()
                    found[process.pid, process.create_time()] = used.user + used.system
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def _is_inside(self, process: psutil.Process) -> bool:
        if process.pid == os.getpid():
            return True
        if any(parent.pid == os.getpid() for parent in process.parents()):
            return True
        if _in_pod(process.pid):
            return True
        try:
            return Path(process.exe()).is_relative_to(self.programs)
        except (psutil.AccessDenied, FileNotFoundError):
            return False


def _in_pod(pid: int) -> bool:
    try:
        return "kubepods" in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False
