"""Any run, recorded and replayed, gives the same bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline_operator.autopilot.record import Asked, RecordError, Replay, Writer
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.policy import Policy
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
        (lambda line: "[" * 30_000 + line, "nested too deep"),
        (lambda line: re.sub('"now_s":[^,]*', '"now_s":NaN', line), "no decision can be made"),
    ],
)
def test_what_is_no_record_is_said(
    lines: list[str], change: Callable[[str], str], what: str
) -> None:
    with pytest.raises(RecordError, match=what):
        Replay().again(change(lines[0]))


REMOVED = object()
VALUES = (
    *(REMOVED, None, "x", "nan", [], {}, True),
    *(0, -1, 1.5, -1e-300, 1e308, 10**400, float("nan"), float("inf")),
)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each field."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inside:
        yield (*place, key)
        if isinstance(each, dict | list):
            yield from _places(each, (*place, key))


def _mutated(line: str, place: tuple[Any, ...], value: Any) -> str:
    document = json.loads(line)
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    if value is REMOVED:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return json.dumps(document, separators=(",", ":"))


@pytest.mark.behaviour(
    "a record that was damaged or edited is made again, or refused as a record",
    report="a value that no measurement has ended replay with a traceback",
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_record_with_one_other_value_is_made_again_or_refused(
    lines: list[str], data: st.DataObject
) -> None:
    number = data.draw(st.sampled_from((0, 1, 8)))
    places = [place for place in _places(json.loads(lines[number])) if place[0] != "tick"]
    changed = _mutated(
        lines[number], data.draw(st.sampled_from(places)), data.draw(st.sampled_from(VALUES))
    )
    replay = Replay()
    for line in lines[:number]:
        replay.again(line)
    with suppress(RecordError):
        replay.again(changed)


def test_a_line_in_the_middle_needs_the_one_before(lines: list[str]) -> None:
    with pytest.raises(RecordError, match="line before"):
        Replay().again(lines[5])


def test_another_answer_is_seen(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline_operator.autopilot.replicas.need.DOWN_INFLATION", 5.0)
    assert replayed(lines) != lines
