"""How many processors this process may really use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUP_DIR: Final = Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """CPUs this process may use: its affinity, cut to whole CPUs of its quota."""
    return cpus_within(len(os.sched_getaffinity(0)), CGROUP_DIR)


def cpus_within(allowed: int, cgroup: Path) -> int:
    """CPUs that a control group leaves, at least 1.

    Formats: Linux `cgroup-v2.rst` and `scheduler/sched-bwc.rst` (version 1).

    Args:
        allowed: CPUs without a quota.
        cgroup: Mount of the control groups, as seen from inside a container.
    """
    for quota, period in _quotas(cgroup):
        if quota.isdigit() and period.isdigit() and int(period):
            return max(1, min(allowed, int(quota) // int(period)))
    return allowed


def _quotas(cgroup: Path) -> Iterator[tuple[str, str]]:
    """Microseconds per period and the period; a text that is no number means no limit."""
    both = _setting(cgroup / "cpu.max").split()
    if len(both) == 2:
        yield both[0], both[1]
    for controller in ("cpu", "cpu,cpuacct"):
        directory = cgroup / controller
        yield (
            _setting(directory / "cpu.cfs_quota_us"),
            _setting(directory / "cpu.cfs_period_us"),
        )


def _setting(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
