from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import (
    Awaited,
    Bursts,
    FitMemory,
    Memory,
    Minute,
    PodPace,
    Recommendation,
    Regret,
    dump_memory,
    load_memory,
    not_after,
)
from paceline_operator.autopilot.vocabulary.window import Counter, PodShare, StepClass, Window
from tests.operator.autopilot.build import auto, fleet, moments, pod, window

numbers = st.floats(-1e9, 1e9)
fits = st.builds(
    FitMemory,
    information=st.lists(numbers, min_size=15, max_size=15).map(tuple),
    target=st.lists(numbers, min_size=5, max_size=5).map(tuple),
    square=numbers,
    steps=st.floats(0, 1e5),
    rejected=st.integers(0, 3),
)


@given(
    st.builds(
        Memory,
        decode_fit=fits,
        prefill_fit=fits,
        template_hash=st.text(max_size=10),
        margin=st.floats(0.05, 0.4),
        squeezed_seqs=st.one_of(st.none(), st.integers(1, 64)),
        recommended=st.lists(
            st.builds(Recommendation, time_s=numbers, replicas=st.integers(0, 99)), max_size=9
        ).map(tuple),
        cold_starts_s=st.lists(numbers, max_size=5).map(tuple),
        starting=st.lists(st.tuples(st.text(max_size=36), numbers), max_size=9).map(tuple),
    )
)
def test_it_survives_the_status(memory: Memory) -> None:
    assert load_memory(json.loads(json.dumps(dump_memory(memory)))) == memory


def test_defaults_are_not_stored() -> None:
    assert dump_memory(Memory()) == {}


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {},
        {"margin": "much"},
        {"recommended": [{"x": 1}]},
        {"margin": "nan"},
        {"decode_fit": {"target": ["inf", 1.0, 1.0]}},
        {"minutes": [{"start_s": float("nan"), "end_s": 1.0, "tokens": 1.0}]},
    ],
)
def test_what_cannot_be_read_counts_as_never_learned(stored: dict[str, object] | None) -> None:
    assert load_memory(stored) == Memory()


def test_what_a_newer_operator_stored_is_passed_over() -> None:
    assert load_memory({"margin": 0.2, "invented_later": 1}) == Memory(margin=0.2)


def test_every_field_is_plain() -> None:
    for field in fields(Memory):
        json.dumps(dump_memory(Memory()).get(field.name))


MOST_BYTES = 32_000
"""Of the memory in the status: etcd takes 1.5 MB for the whole object."""
STEPS = {
    StepClass.DECODE_ONLY: moments(*[(0.0, rows, 700.0 * rows, 0.0, 0.021 + rows / 3000)
                                     for rows in range(1, 240)]),
    StepClass.MIXED: moments(*[(40.0 + rows, rows, 700.0 * rows, 2e3 * rows, 0.025 + rows / 2000)
                               for rows in range(1, 240)]),
}  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[FleetObservation]:
    """A large fleet whose pods come, go, start and fall silent while its load falls."""
    found, now_s = [], 100_000.0
    for _ in range(draw(st.integers(2, 5))):
        first, number = draw(st.integers(0, 300)), draw(st.integers(1, 300))
        now_s += draw(st.sampled_from([5.0, 5.0, 15.0, 400.0]))
        pods = tuple(
            pod(n, uid=f"{n:036d}", ready=bool(n % 5), ready_since_s=now_s - 999 if n % 5 else None,
                created_s=now_s - 20 * (n % 7), template_hash="t")
            for n in range(first, first + number)
        )  # fmt: skip
        shares = {p.uid: PodShare(steps=STEPS) for n, p in enumerate(pods) if n % 3}
        found.append(
            fleet(pods=pods, slices=(_slice(shares, now_s),), now_s=now_s, template_hash="t")
        )
    return found


def _slice(shares: dict[str, PodShare], now_s: float) -> Window:
    received = {Counter.REQUESTS_RECEIVED: 90.0, Counter.PROMPT_TOKENS_RECEIVED: 90_000.0}
    return window(now_s - 5, now_s, steps=STEPS, counters=received, pods=shares)


@settings(max_examples=15, deadline=None)
@given(histories())
def test_it_fits_into_the_status_whatever_the_fleet_has_been_through(
    history: list[FleetObservation],
) -> None:
    memory, policy = Memory(), auto(max_replicas=None)
    for seen in history:
        memory = pilot.step(policy, seen, memory, seen.now_s).memory
    assert len(json.dumps(dump_memory(memory))) <= MOST_BYTES


def test_no_time_lies_ahead_of_a_clock_that_took_over() -> None:
    ahead = Memory(
        learned_until_s=1600.0, lowered_at_s=1500.0, margin_at_s=900.0, recommending_since_s=1200.0
    )
    found = not_after(ahead, 1000.0)
    assert (found.learned_until_s, found.lowered_at_s) == (1000.0, 1000.0)
    assert (found.margin_at_s, found.recommending_since_s) == (900.0, 1000.0)
    assert not_after(found, 1000.0) is found
    assert found.blind_since_s is None


def test_no_time_inside_lies_ahead_of_a_clock_that_took_over() -> None:
    """Nor a minute: the trend is laid through what was measured after the last of them."""
    ahead = Memory(
        regret=Regret(at_s=1500.0, replicas=3, rps=9.0),
        bursts=Bursts(began_at_s=900.0, since_s=1100.0, lasted_at_s=1200.0),
        recommended=(Recommendation(time_s=950.0, replicas=4),
                     Recommendation(time_s=1300.0, replicas=2)),
        paces=(PodPace(uid="a", slow_since_s=1100.0, judged_at_s=1200.0), PodPace(uid="b")),
        minutes=tuple(Minute(start_s=end_s - 60.0, end_s=end_s, tokens=1.0)
                      for end_s in (900.0, 960.0, 1020.0, 1080.0)),
    )  # fmt: skip
    found = not_after(ahead, 1000.0)
    assert found.regret == Regret(at_s=1000.0, replicas=3, rps=9.0)
    assert found.bursts == Bursts(began_at_s=900.0, since_s=1000.0, lasted_at_s=1000.0)
    assert [each.time_s for each in found.recommended] == [950.0, 1000.0]
    assert found.paces[0] == PodPace(uid="a", slow_since_s=1000.0, judged_at_s=1000.0)
    assert found.paces[1] is ahead.paces[1]
    assert found.minutes == ahead.minutes[:2]
    assert not_after(found, 1000.0) is found


def test_a_move_keeps_the_time_by_which_its_decision_is_known() -> None:
    moved = (Awaited(knob="budget", moved_at_s=1000.5, after=512, due_s=1060.0),)
    assert not_after(Memory(awaited=moved), 1000.0).awaited == moved
