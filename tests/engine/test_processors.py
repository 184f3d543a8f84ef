from __future__ import annotations

from pathlib import Path

import pytest

from paceline_engine.processors import cpus_within

V1 = "cpu,cpuacct/cpu.cfs"


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "400000 100000"}, 4),
        ({"cpu.max": "399999 100000"}, 3),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"cpu.max": ""}, 8),
        ({"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        ({f"{V1}_quota_us": "300000", f"{V1}_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "100000"}, 8),
    ],
)
def test_cpus_are_cut_to_the_quota(tmp_path: Path, files: dict[str, str], cpus: int) -> None:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{content}\n")
    assert cpus_within(8, tmp_path) == cpus
