"""Metrics that hang: the operator must have noticed, held, gone on asking, and read them again."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from e2e.smoke.site import SmokeError
from e2e.trial import faults
from e2e.trial.diversion import Diversion

READY = [{"type": "Ready", "status": "True"}]


class Fleet:
    """Two engines and their operator, as kubectl shows them.

    Args:
        notices: Whether the operator says so when nothing is measured.
        asks: How often it asks each engine meanwhile.
        lowers: Whether it lowers replicas meanwhile.
        reads_again: Whether it measures again afterwards.
    """

    def __init__(
        self,
        *,
        notices: bool = True,
        asks: int = 4,
        lowers: bool = False,
        reads_again: bool = True,
    ) -> None:
        self._notices, self._asks, self._lowers = notices, asks, lowers
        self._reads_again = reads_again
        self.hanging: set[str | None] = set()
        self._was_stale = False
        self.looks = 0

    def engine_pods(self) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"creationTimestamp": str(number)},
                "status": {"podIP": f"198.18.0.{number}", "conditions": READY},
            }
            for number in (1, 2)
        ]

    def condition(self, kind: str) -> dict[str, Any]:
        assert kind == "MetricsFresh"
        if len(self.hanging) == 2 and self._notices:
            self._was_stale = True
            return {"status": "False"}
        return {"status": "False" if self._was_stale and not self._reads_again else "True"}

    def service(self) -> dict[str, Any]:
        self.looks += 1
        return {"status": {"desiredReplicas": 1 if self._lowers and self.looks > 1 else 2}}

    @contextmanager
    def diverted(self, _processes: object, diversion: Diversion) -> Iterator[None]:
        self.hanging.add(diversion.pod_ip)
        for _ in range(self._asks):
            with socket.create_connection(("127.0.0.1", diversion.to_port), timeout=5):
                pass
        yield
        self.hanging.discard(diversion.pod_ip)


def hang(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> faults.Mended:
    monkeypatch.setattr(faults, "NODE_IP", "127.0.0.1")
    monkeypatch.setattr(faults, "diverted", fleet.diverted)
    monkeypatch.setattr(faults, "operators", lambda _site: [1])
    for name, value in (("HANG_S", 0.4), ("STALE_TOLD_S", 0.3), ("FRESH_TOLD_S", 0.3)):
        monkeypatch.setattr(faults, name, value)
    site: Any = fleet
    return faults.hang_metrics(site)


def test_a_fault_that_was_noticed_and_is_over_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    began_s = time.time()
    done = hang(Fleet(), monkeypatch)
    assert done.words.startswith(
        "2 engines, each asked 4 times or more in vain, MetricsFresh=False"
    )
    assert began_s <= done.fault.from_s < done.fault.to_s <= time.time()


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        (Fleet(notices=False), "MetricsFresh=False while metrics hang: not within"),
        (Fleet(asks=2), "an engine was asked 2 times"),
        (Fleet(lowers=True), "replicas were lowered from 2 to 1"),
        (Fleet(reads_again=False), "MetricsFresh=True after metrics hung: not within"),
    ],
)
def test_what_does_not_hold_is_said(
    fleet: Fleet, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SmokeError, match=said):
        hang(fleet, monkeypatch)


def test_processes_of_pods_that_leave_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [
        {"metadata": {"uid": "stays"}},
        {"metadata": {"uid": "leaves", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"uid": "starts"}},
    ]
    monkeypatch.setattr(faults, "pod_processes", {"stays": [7, 8], "leaves": [9], "starts": []}.get)
    system = SimpleNamespace(json=lambda *_: {"items": pods})
    site: Any = SimpleNamespace(system=system)
    assert faults.operators(site) == [7]
