"""What a result must say of the machine it was measured on, and how busy others kept it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

PACKAGES = ("torch", "transformers", "tokenizers", "paceline-engine")


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


def facts(threads: int) -> dict[str, str]:
    """Processor, memory, system, versions.

    Args:
        threads: That either server computed with.
    """
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in cpuinfo.splitlines() if ":" in line)
    described = {name.strip(): value.strip() for name, value in fields.items()}
    flags = set(described.get("flags", "").split())
    return {
        "processor": described.get("model name", "unknown"),
        "vector units": ", ".join(f for f in ("avx2", "avx512f", "avx512_bf16") if f in flags),
        "usable cores": str(usable_cores()),
        "threads of either server": str(threads),
        "memory_gib": f"{psutil.virtual_memory().total / 2**30:.0f}",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds used so far.

    Attributes:
        machine: By everybody.
        own: By this process and its descendants.
        capacity: That there were, idle ones included.
    """

    machine: float
    own: float
    capacity: float

    @classmethod
    def now(cls) -> CpuTimes:
        """Reads the counters."""
        times = psutil.cpu_times()
        idle = times.idle + times.iowait
        total = float(sum(times[:8]))
        me = psutil.Process()
        own = 0.0
        for process in [me, *me.children(recursive=True)]:
            used = process.cpu_times()
            own += used.user + used.system
        return cls(machine=total - idle, own=own, capacity=total)

    def others_since(self, before: CpuTimes) -> float:
        """Share of the machine that processes outside the benchmark used meanwhile."""
        others = (self.machine - before.machine) - (self.own - before.own)
        return max(0.0, others / max(self.capacity - before.capacity, 1e-9))
