from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.load.record import Outcome, read_records, to_line
from tests.e2e.load.making import record

HUNDREDTHS = st.integers(0, 10**7).map(lambda n: n / 100)


@given(
    st.integers(0, 2 * 10**13).map(lambda n: n / 10**4),
    st.none() | HUNDREDTHS,
    st.lists(HUNDREDTHS, max_size=5),
    st.sampled_from(Outcome),
)
def test_a_line_gives_the_record_back(
    sent_s: float, ttft_ms: float | None, gaps: list[float], outcome: Outcome
) -> None:
    made = record(sent_s, ttft_ms, *gaps, outcome=outcome, waited_s=0.0)
    assert read_records([to_line(made)]) == [made]


def test_a_line_is_short() -> None:
    line = to_line(record(1.23456789, 12.3456, 1.0, 2.34567))
    assert "\n" not in line
    fields = json.loads(line)
    assert (fields["sent_s"], fields["ttft_ms"], fields["gaps_ms"]) == (1.2346, 12.35, [1.0, 2.35])
    assert fields["outcome"] == "ok"


def test_other_lines_are_passed_over_and_records_sorted() -> None:
    early, late = record(1.0, number=9), record(2.0, number=3)
    lines = ['{"start":{}}', "load: 5 s", to_line(late), "", to_line(early), '{"summary":{}}']
    assert read_records(lines) == [early, late]


def test_times_of_texts_and_gaps() -> None:
    made = record(100.0, 500.0, 20.0, 30.0)
    assert list(made.texts_at()) == pytest.approx([100.5, 100.52, 100.55])
    assert [gap for _, gap in made.gaps_at()] == [20.0, 30.0]
    assert [at for at, _ in made.gaps_at()] == pytest.approx([100.52, 100.55])
    assert list(record(100.0, None).texts_at()) == []
