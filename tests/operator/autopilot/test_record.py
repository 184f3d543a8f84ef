"""Any run, recorded and replayed, gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline_operator.autopilot.fleet import FleetObservation
from paceline_operator.autopilot.policy import Policy
from paceline_operator.autopilot.record import Asked, RecordError, Replay, Writer
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.controller import Orders
from paceline_operator.simulator.fleet.faults import Fault, OperatorAway, PodKilled, ScrapesLost
from tests.operator.simulator.fleets import poisson, run
from tests.operator.simulator.test_autopilot_controller import POLICY


class Recorded(AutopilotController):
    """The control law, with a record of all it is asked."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.writer, self.lines = Writer(), list[str]()

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        memory = self.memory
        orders = super().decide(fleet, now_s)
        assert self.last_tick is not None
        asked = Asked(
            policy=self._policy, fleet=fleet, memory=memory, now_s=now_s, tick=self.last_tick
        )
        self.lines.append(self.writer.line("default/chat", asked))
        return orders


def recorded(
    rate: float, seconds: float, seed: int = 1, faults: tuple[Fault, ...] = ()
) -> Recorded:
    law = Recorded(POLICY)
    run(poisson(rate, seconds, seed), law, until_s=seconds, initial_replicas=2, faults=faults)
    return law


def replayed(lines: list[str]) -> list[str]:
    replay = Replay()
    return [replay.again(line)[1] for line in lines]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rate=st.floats(0.0, 25.0),
    seed=st.integers(0, 1000),
    faults=st.sets(
        st.sampled_from(
            (
                OperatorAway(start_s=30.0, end_s=45.0),
                PodKilled(at_s=25.0, place=0, unnoticed_s=3.0),
                ScrapesLost(start_s=20.0, end_s=60.0, pods=frozenset({1})),
            )
        )
    ),
)
def test_any_run_replays_to_the_same_bytes(rate: float, seed: int, faults: set[Fault]) -> None:
    law = recorded(max(rate, 0.01), 90.0, seed, tuple(faults))
    assert len(law.lines) >= 8
    assert replayed(law.lines) == law.lines


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return recorded(12.0, 120.0).lines


def test_a_line_holds_only_what_is_new(lines: list[str]) -> None:
    sizes = [len(line) for line in lines]
    assert max(sizes[10:]) < 25_000  # each pod's own share of a slice included
    assert sum(isinstance(each, int) for each in json.loads(lines[-1])["slices"]) > 15
    assert json.loads(lines[-1])["memory"] == "previous"


def test_two_objects_in_one_file_do_not_mix() -> None:
    writer, one, other = Writer(), recorded(3.0, 40.0, 1), recorded(9.0, 40.0, 2)
    assert writer.line("a", _first(one)) == one.lines[0].replace("default/chat", "a")
    mixed = [line for pair in zip(one.lines, other.lines, strict=False) for line in pair]
    separate = [
        line.replace("default/chat", "default/other") if place % 2 else line
        for place, line in enumerate(mixed)
    ]
    assert replayed(separate) == separate


def _first(law: Recorded) -> Asked:
    document = json.loads(law.lines[0])
    replay = Replay()
    replay.again(law.lines[0])
    found = replay._before["default/chat"]
    assert found.now_s == document["now_s"]
    return found


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda line: line[: len(line) // 2], "no JSON"),
        (lambda line: line.replace('"version":1', '"version":2'), "version 1"),
        (lambda _line: "[]", "version 1"),
        (lambda line: line.replace('"fleet":', '"fleat":'), "fleet is missing"),
        (lambda line: line.replace('"slices":[]', '"slices":[7]'), "line before"),
        (lambda line: line.replace('"objectives":[', '"objectives":[7,'), "objectives"),
    ],
)
def test_what_is_no_record_is_said(
    lines: list[str], change: Callable[[str], str], what: str
) -> None:
    with pytest.raises(RecordError, match=what):
        Replay().again(change(lines[0]))


def test_a_line_in_the_middle_needs_the_one_before(lines: list[str]) -> None:
    with pytest.raises(RecordError, match="line before"):
        Replay().again(lines[5])


def test_another_answer_is_seen(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline_operator.autopilot.replica_need.DOWN_INFLATION", 5.0)
    assert replayed(lines) != lines
