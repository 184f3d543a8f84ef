from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.memory import (
    FitMemory,
    Memory,
    Recommendation,
    dump_memory,
    load_memory,
)

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


@pytest.mark.parametrize("stored", [None, {}, {"margin": "much"}, {"recommended": [{"x": 1}]}])
def test_what_cannot_be_read_counts_as_never_learned(stored: dict[str, object] | None) -> None:
    assert load_memory(stored) == Memory()


def test_what_a_newer_operator_stored_is_passed_over() -> None:
    assert load_memory({"margin": 0.2, "invented_later": 1}) == Memory(margin=0.2)


def test_every_field_is_plain() -> None:
    for field in fields(Memory):
        json.dumps(dump_memory(Memory()).get(field.name))
