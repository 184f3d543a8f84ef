"""Whose use of the machine is the demo's."""

import subprocess
import sys
from pathlib import Path

import psutil

from e2e.demo.host import HostMeter

SPIN = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def test_what_the_demo_starts_is_inside_while_it_runs(tmp_path: Path) -> None:
    meter = HostMeter(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    try:
        assert meter._is_inside(psutil.Process(child.pid))
        assert meter._is_inside(psutil.Process())
        assert not meter._is_inside(psutil.Process(1))
    finally:
        child.communicate()


def test_use_by_an_ended_child_is_not_that_of_others(tmp_path: Path) -> None:
    meter = HostMeter(tmp_path)
    before = meter._read()
    subprocess.run([sys.executable, "-c", SPIN], check=True)
    assert meter._read().own_s - before.own_s >= 0.5
    assert 0.0 <= meter.outside() <= 1.0
