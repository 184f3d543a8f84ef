"""What a simulated engine costs: fleets of them run on one small machine."""

from __future__ import annotations

import os

import httpx
import psutil

from tests.support.engine_server import engine_server

MAX_RSS_MB = 150


def test_memory_of_both_processes_and_no_torch() -> None:
    with engine_server("--profile=llama-3-8b-a100") as running:
        body = {"prompt": ["x" * 4000] * 16, "max_tokens": 8}
        assert httpx.post(running.api + "/v1/completions", json=body, timeout=30).is_success
        pids = (running.process.pid, running.engine_pid())
        rss_mb = sum(psutil.Process(pid).memory_info().rss for pid in pids) / 1e6
        assert rss_mb <= MAX_RSS_MB
        for pid in pids:
            with open(os.path.join("/proc", str(pid), "maps"), encoding="utf-8") as maps:
                assert "torch" not in maps.read()
