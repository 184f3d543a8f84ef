"""Memory limits read from trees laid out as the kernel lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline_engine.memory import LimitSource
from paceline_engine.runner.memory_limit import available_memory_bytes, nearest_limit

MEMINFO = "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"
MACHINE = 8_000_000 * 1024
GIB = 1 << 30


def lay_out(root: Path, files: dict[str, str | int]) -> Path:
    for name, content in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"
CASES: dict[str, tuple[dict[str, str | int], int]] = {
    "no control groups": ({}, MACHINE),
    "v2 without a limit": (
        {"proc/self/cgroup": "0::/a", f"{V2}/a/memory.max": "max", f"{V2}/a/memory.current": 5},
        MACHINE,
    ),
    "v2 inside a container": (
        {
            "proc/self/cgroup": "0::/",
            f"{V2}/memory.max": 2 * GIB,
            f"{V2}/memory.current": GIB,
            f"{V2}/memory.stat": "anon 7\nactive_file 3\ninactive_file 1000\n",
        },
        GIB + 1000,
    ),
    "v2, the parent limits": (
        {
            "proc/self/cgroup": "0::/pods/one",
            f"{V2}/pods/one/memory.max": 5 * GIB,
            f"{V2}/pods/one/memory.current": 0,
            f"{V2}/pods/memory.max": 3 * GIB,
            f"{V2}/pods/memory.current": GIB,
        },
        2 * GIB,
    ),
    "v2, over its limit": (
        {"proc/self/cgroup": "0::/", f"{V2}/memory.max": 5, f"{V2}/memory.current": 9},
        0,
    ),
    "v1": (
        {
            "proc/self/cgroup": "12:cpu,cpuacct:/x\n4:memory:/x\n0::/x",
            f"{V1}/x/memory.limit_in_bytes": 3 * GIB,
            f"{V1}/x/memory.usage_in_bytes": GIB,
            f"{V1}/x/memory.stat": "cache 9\ntotal_inactive_file 50\n",
        },
        2 * GIB + 50,
    ),
    "v1 seen from inside, where the path is the host's": (
        {
            "proc/self/cgroup": "4:memory:/kubepods/pod1/c1",
            f"{V1}/memory.limit_in_bytes": GIB,
            f"{V1}/memory.usage_in_bytes": 0,
        },
        GIB,
    ),
    "v1 without a limit": (
        {
            "proc/self/cgroup": "4:memory:/",
            f"{V1}/memory.limit_in_bytes": 9223372036854771712,
            f"{V1}/memory.usage_in_bytes": GIB,
        },
        MACHINE,
    ),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES.keys())
def test_nearest_limit(tmp_path: Path, files: dict[str, str | int], expected: int) -> None:
    assert available_memory_bytes(lay_out(tmp_path, files)) == expected


@pytest.mark.parametrize(
    ("case", "source", "total"),
    [
        ("no control groups", LimitSource.MACHINE, 24_000_000 * 1024),
        ("v2, the parent limits", LimitSource.CGROUP_V2, 3 * GIB),
        ("v2, over its limit", LimitSource.CGROUP_V2, 5),
        ("v1", LimitSource.CGROUP_V1, 3 * GIB),
        ("v1 without a limit", LimitSource.MACHINE, 24_000_000 * 1024),
    ],
)
def test_where_the_limit_comes_from(
    tmp_path: Path, case: str, source: LimitSource, total: int
) -> None:
    files, _ = CASES[case]
    limit = nearest_limit(lay_out(tmp_path, files))
    assert (limit.source, limit.total_bytes) == (source, total)
