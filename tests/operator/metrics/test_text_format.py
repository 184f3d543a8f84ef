"""Reading the text format: what the official parser reads, of what is wanted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from paceline_operator.metrics import text_format
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import WANTED, parse
from paceline_operator.metrics.text_format import MalformedError, TextReader

ENGINE = (Path(__file__).parent / "fixtures" / "engine.txt").read_text()
NAMES = ("a_gauge", "a_count_total", "a_time_bucket", "a_time_sum")
OTHERS = ("other", "a_gauge_of_another", "a_time_count", "up")


def expected(text: str, wanted: tuple[str, ...] | frozenset[str]) -> list[str]:
    families = text_string_to_metric_families(text)
    samples = (sample for family in families for sample in family.samples)
    return sorted(
        repr((s.name, dict(s.labels), float(s.value))) for s in samples if s.name in wanted
    )


def read(
    text: str, wanted: tuple[str, ...] | frozenset[str], reader: TextReader | None = None
) -> list[str]:
    samples = (reader or TextReader(wanted)).samples(text)
    return sorted(repr((name, dict(labels), value)) for name, labels, value in samples)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


_label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,4}", fullmatch=True).filter(
    lambda name: not name.startswith("__")
)
_label_values = st.text(max_size=8) | st.sampled_from(
    ['"', "\\", "\n", "\\n", "} 1", "{", "#", ",", " # "]
)
_numbers = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["NaN", "+Inf", "-Inf", "Inf", "1e3", "5."]),
)
_space = st.sampled_from([" ", "  "])
_end = st.sampled_from(
    ["", "", "", " 1700000000000", " -5", ' # {trace="a b"} 0.5', " # {} 1 17.5"]
)


@st.composite
def _line(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(NAMES + OTHERS))
    labels = draw(st.dictionaries(_label_names, _label_values, max_size=3))
    texts = [f'{key}="{escaped(value)}"' for key, value in labels.items()]
    if draw(st.integers(0, 9)) == 0:
        inside = ", ".join([f'"{name}"', *texts])
        return f"{{{inside}}} {draw(_numbers)}"
    joined = draw(st.sampled_from([",", ", "])).join(texts) + draw(
        st.sampled_from(["", ","] if texts else [""])
    )
    gap = draw(st.sampled_from(["", "", "", " "]))
    braces = f"{gap}{{{joined}}}" if texts or draw(st.booleans()) else ""
    lead = draw(st.sampled_from(["", "", "", " ", "\t"]))
    return f"{lead}{name}{braces}{draw(_space)}{draw(_numbers)}{draw(_end)}"


_comments = st.sampled_from(
    ["", "   ", "# a remark {", "#", "# HELP up Is it {up}?", "# TYPE a_gauge gauge",
     "# HELP a_gauge Two lines\\nof \\\\ help.", "# TYPE a_time histogram",
     "# TYPE a_count_total counter", "# EOF"]
)  # fmt: skip
_texts = st.lists(_line() | _comments, max_size=12).map(lambda lines: "\n".join([*lines, ""]))


@settings(max_examples=400)
@given(_texts)
def test_reads_what_the_official_parser_reads(text: str) -> None:
    reader = TextReader(NAMES)
    assert read(text, NAMES, reader) == expected(text, NAMES)
    assert read(text, NAMES, reader) == expected(text, NAMES)


def test_reads_an_engine_as_the_official_parser_does() -> None:
    assert read(ENGINE, WANTED) == expected(ENGINE, WANTED)
    shorter = TextReader(WANTED, common="model_name")
    without = ENGINE.replace('model_name="smol",', "").replace(',model_name="smol"', "")
    assert read(ENGINE, WANTED, shorter) == read(without, WANTED)
    assert len(read(ENGINE, WANTED)) > 200


@given(st.data())
def test_damage_raises_nothing_but_the_typed_error(data: st.DataObject) -> None:
    """Cut, overwritten, mixed up: a text is read, or it is refused."""
    text = ENGINE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        text = (
            text[:start]
            + data.draw(st.text(max_size=5) | st.sampled_from('{}"\\\n ,='))
            + text[end:]
        )
    with suppress(ScrapeError):
        parse(text)


@given(st.text() | _texts.map(lambda text: text[::-1]))
def test_any_text_raises_nothing_but_the_typed_error(text: str) -> None:
    with suppress(MalformedError):
        read(text, NAMES)
    with pytest.raises(ScrapeError):
        parse(text)


@given(st.integers(1, len(ENGINE) - 1))
def test_a_cut_answer_is_refused_or_lacks_what_was_cut_only(cut: int) -> None:
    whole, text = read(ENGINE, WANTED), ENGINE[:cut]
    try:
        found = read(text, WANTED)
    except MalformedError:
        return
    last = [] if text.endswith("\n") else found[-1:]  # a number that is cut is another number
    assert len(set(found) - set(whole)) <= len(last)


MALFORMED = {
    "no end of the labels": 'a_gauge{x="y" 1',
    "no end of a value": 'a_gauge{x="y} 1',
    "no value": 'a_gauge{x="y"}',
    "no value without labels": "a_gauge",
    "a value with underscores": 'a_gauge{x="y"} 1_000',
    "a value that is none": 'a_gauge{x="y"} many',
    "a label twice": 'a_gauge{x="y",x="z"} 1',
    "a label without a value": "a_gauge{x} 1",
    "a label without quotes": "a_gauge{x=y} 1",
    "something after the value": 'a_gauge{x="y"} 1 later',
    "two names": 'a_gauge{"a_gauge"} 1',
    "no name": '{x="y"} 1',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_lines_are_refused(name: str) -> None:
    with pytest.raises(MalformedError):
        read(MALFORMED[name], NAMES)


def test_malformed_lines_of_others_are_passed_over() -> None:
    text = 'other{x="y 1\nother\na_gauge{x="y"} 2\n'
    assert read(text, NAMES) == [repr(("a_gauge", {"x": "y"}, 2.0))]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_format, "CACHED", 3)
    reader = TextReader(NAMES)
    for number in range(10):
        line = f'a_gauge{{x="{number}"}} 1\n'
        assert read(line, NAMES, reader) == [repr(("a_gauge", {"x": str(number)}, 1.0))]
        assert len(reader._labels) <= 3


def test_long_sets_of_labels_are_read_and_not_remembered() -> None:
    """An engine with a new one in each answer would else fill the operator's memory."""
    reader, long = TextReader(NAMES), "x" * 100_000
    before = len(reader._labels)
    found = read(f'a_gauge{{x="{long}"}} 1\n', NAMES, reader)
    assert found == [repr(("a_gauge", {"x": long}, 1.0))]
    assert len(reader._labels) == before
