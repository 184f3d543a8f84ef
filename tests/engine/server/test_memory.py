"""Memory of a started engine: what it says beside what the kernel says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from tests.support.engine_server import EngineServer, engine_server

PATH = "/admin/memory"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    token = tmp_path_factory.mktemp("admin") / "token"
    token.write_text("secret\n")
    with engine_server(f"--admin-token-file={token}", "--max-queued-tokens=1000") as running:
        yield running


def report(server: EngineServer) -> dict[str, Any]:
    headers = {"authorization": "Bearer secret"}
    answer = httpx.get(server.admin + PATH, headers=headers, timeout=10)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def resident(server: EngineServer) -> tuple[int, int]:
    """Bytes of server and engine, as another reader counts them."""
    pids = (server.process.pid, server.engine_pid())
    first, second = (psutil.Process(pid).memory_info().rss for pid in pids)
    return first, second


def test_nobody_without_the_token(simulated: EngineServer) -> None:
    assert httpx.get(simulated.admin + PATH).status_code == 401


def test_measured_is_what_the_kernel_counts(simulated: EngineServer) -> None:
    measured = report(simulated)["measured"]
    for name, expected in zip(("serverBytes", "engineBytes"), resident(simulated), strict=True):
        assert measured[name] == pytest.approx(expected, rel=0.1)


def test_the_plan_of_a_simulated_engine_holds_what_it_takes(simulated: EngineServer) -> None:
    told = report(simulated)
    assert told["plannedBytes"] == sum(told["plan"].values())
    assert told["plan"]["weights"] == told["plan"]["kvCache"] == 0
    assert told["plannedBytes"] <= told["limit"]["usableBytes"] <= told["limit"]["totalBytes"]
    assert sum(resident(simulated)) <= told["plannedBytes"]


def test_gauges_say_the_same(simulated: EngineServer) -> None:
    told = report(simulated)
    for part, size in told["plan"].items():
        assert simulated.value("memory_planned_bytes", part=part) == size
    assert simulated.value("memory_limit_bytes") == told["limit"]["usableBytes"]
    assert simulated.value("memory_resident_bytes", process="engine") == pytest.approx(
        told["measured"]["engineBytes"], rel=0.1
    )
    slack = 0.1 * told["limit"]["totalBytes"]  # other processes come and go meanwhile
    assert simulated.value("memory_headroom_bytes") == pytest.approx(
        told["headroomBytes"], abs=slack
    )


def test_the_plan_is_in_the_log(simulated: EngineServer) -> None:
    told = report(simulated)
    lines = [line for line in simulated.log if "memory plan: " in line]
    assert len(lines) == len(told["plan"]) + 1
    assert len({len(line) for line in lines}) == 1
    verdict = next(line for line in simulated.log if "INFO: memory: runtime " in line)
    assert f"({told['limit']['source']})" in verdict
    assert "MiB spare" in verdict
