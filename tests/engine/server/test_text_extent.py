from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import override

from paceline_engine.server.text_extent import bytes_of, exceeds, strings


class Part(BaseModel):
    text: str
    more: tuple[str, ...] | None = None


def test_texts_wherever_they_stand() -> None:
    value = [Part(text="a", more=("b", "c")), {"d": ["e", 1, None, {"f": True}]}, "g"]
    assert sorted(filter(None, strings(value))) == list("abcdefg")
    assert bytes_of(value) == 7
    assert bytes_of("\u20ac\ud800") == 6


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=30,
    ),
    st.integers(0, 60),
)
def test_characters_and_parts_count(value: object, limit: int) -> None:
    assert exceeds(value, limit) == (sum(len(text) + 1 for text in strings(value)) > limit)


def test_no_more_is_read_than_needed() -> None:
    class Endless(list[str]):
        @override
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("read")

    assert exceeds([Endless(), "x" * 100], 50)
