from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.simulator.loads.trace import TraceError, parse_trace
from paceline_operator.simulator.request import Request

SHORT = "arrival_s,prompt_tokens,output_tokens"
LONG = SHORT + ",prefix_blocks_512"
TIERS = SHORT + ",tier"
WHOLE = LONG + ",tier"
NAME = "t.csv"


def parsed(*lines: str) -> list[Request]:
    return list(parse_trace(lines, NAME))


def test_columns_are_read() -> None:
    assert parsed(SHORT, "0.000,374,44", "4.315,396,1") == [
        Request(0.0, 374, 44),
        Request(4.315, 396, 1),
    ]


def test_block_ids_may_be_missing_in_a_row() -> None:
    assert parsed(LONG, "0,1025,6,79 80 3", "0,512,4,", "1e-3,600,9,79") == [
        Request(0.0, 1025, 6, (79, 80, 3)),
        Request(0.0, 512, 4, ()),
        Request(0.001, 600, 9, (79,)),
    ]


def test_tiers_are_read_with_and_without_block_ids() -> None:
    assert parsed(TIERS, "0,374,44,batch", "1,9,2,interactive") == [
        Request(0.0, 374, 44, (), "batch"),
        Request(1.0, 9, 2, (), "interactive"),
    ]
    assert parsed(WHOLE, "0,1025,6,79 80 3,batch", "0,512,4,,interactive") == [
        Request(0.0, 1025, 6, (79, 80, 3), "batch"),
        Request(0.0, 512, 4, (), "interactive"),
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**7),
            st.integers(1, 10**6),
            st.integers(1, 10**6),
            st.lists(st.integers(0, 2**63), max_size=3),
        ),
        min_size=1,
    )
)
def test_what_was_written_is_read(rows: list[tuple[int, int, int, list[int]]]) -> None:
    rows.sort(key=lambda row: row[0])
    lines = [f"{at / 1000:.3f},{1024 + p},{o},{' '.join(map(str, ids))}" for at, p, o, ids in rows]
    assert parsed(LONG, *lines) == [
        Request(at / 1000, 1024 + p, o, tuple(ids)) for at, p, o, ids in rows
    ]


@pytest.mark.parametrize(
    ("lines", "line", "what"),
    [
        pytest.param((), 1, "the header is ''", id="empty"),
        pytest.param(("arrival,prompt,output",), 1, "the header is 'arrival,", id="header"),
        pytest.param(("\\x89PNG",), 1, "the header is", id="binary"),
        pytest.param((SHORT,), 1, "no request", id="no-rows"),
        pytest.param((SHORT, "0,5,5", ""), 3, "1 values in ''", id="blank"),
        pytest.param((SHORT, "0,5"), 2, "2 values in '0,5', the header has 3", id="few"),
        pytest.param((SHORT, "0,5,5,7"), 2, "4 values", id="many"),
        pytest.param((LONG, "0,5,5"), 2, "3 values", id="no-block-column"),
        pytest.param((SHORT, "-1,5,5"), 2, "arrival_s is '-1'", id="negative"),
        pytest.param((SHORT, "nan,5,5"), 2, "arrival_s is 'nan'", id="nan"),
        pytest.param((SHORT, "inf,5,5"), 2, "arrival_s is 'inf'", id="infinite"),
        pytest.param((SHORT, "1_0,5,5"), 2, "arrival_s is '1_0'", id="underscore"),
        pytest.param((SHORT, "0, 5,5"), 2, "prompt_tokens is ' 5'", id="space"),
        pytest.param((SHORT, "0,5.0,5"), 2, "prompt_tokens is '5.0'", id="fraction"),
        pytest.param((SHORT, "0,0,5"), 2, "prompt_tokens is '0'", id="no-prompt"),
        pytest.param((SHORT, "0,5,0"), 2, "output_tokens is '0'", id="no-output"),
        pytest.param((SHORT, "0,5,-5"), 2, "output_tokens is '-5'", id="negative-output"),
        pytest.param((LONG, "0,600,5,1  2"), 2, "prefix_blocks_512 is '1  2'", id="gap"),
        pytest.param((LONG, "0,600,5,a"), 2, "prefix_blocks_512 is 'a'", id="no-id"),
        pytest.param((LONG, "0,513,5,1 2 3"), 2, "3 block ids for 513 prompt tokens", id="ids"),
        pytest.param((TIERS, "0,5,5"), 2, "3 values in '0,5,5', the header has 4", id="no-tier"),
        pytest.param((TIERS, "0,5,5,"), 2, "tier is ''", id="empty-tier"),
        pytest.param((WHOLE, "0,5,5,,Batch"), 2, "tier is 'Batch'", id="unknown-tier"),
        pytest.param((SHORT + ",tier,prefix_blocks_512",), 1, "the header is", id="swapped"),
        pytest.param((SHORT, "5,5,5", "4,5,5"), 3, "arrival_s 4 lies before the 5", id="order"),
        pytest.param((SHORT, "1700000000,5,5"), 2, "the first arrival_s is 1700000000", id="epoch"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(
    lines: tuple[str, ...], line: int, what: str
) -> None:
    with pytest.raises(TraceError) as caught:
        parsed(*lines)
    text = str(caught.value)
    assert text.startswith(f"{NAME}:{line}: ")
    assert what in text
    assert re.fullmatch(r"[^\n]+; [^\n;]+", text)


@given(
    st.sampled_from([SHORT, LONG, TIERS, WHOLE]),
    st.lists(
        st.one_of(st.text(max_size=12), st.text("0123456789.,-e \\", max_size=24)), max_size=4
    ),
)
def test_whatever_is_given_is_read_or_refused(header: str, lines: list[str]) -> None:
    try:
        requests = parsed(header, *lines)
    except TraceError:
        return
    assert len(requests) == len(lines)
    assert all(r.arrival_s >= 0 and r.prompt_tokens > 0 and r.output_tokens > 0 for r in requests)


def test_a_long_line_is_shown_short() -> None:
    with pytest.raises(TraceError) as caught:
        parsed(SHORT, "9" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_requests_come_before_the_trace_ends() -> None:
    def lines() -> Iterator[str]:
        yield SHORT
        yield "0,5,5"
        raise AssertionError("read ahead")

    assert next(parse_trace(lines(), NAME)) == Request(0.0, 5, 5)
