"""The query of DELETE /admin/cache."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.cache_wire import selection
from paceline_engine.server.errors import BadRequestError


@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        (b"", {}),
        (b"tenant=a%20b&scope=&salt=s%C3%A9", {"tenant": "a b", "scope": "", "salt": "sé"}),
        (b"older_than=60", {"older_than_s": 60.0}),
        (b"older_than=0.5&tenant=a", {"older_than_s": 0.5, "tenant": "a"}),
        (b"older_than=0", {"older_than_s": 0.0}),
        (b"tenant=a%26salt%3Db", {"tenant": "a&salt=b"}),
    ],
)
def test_what_is_chosen(query: bytes, chosen: dict[str, object]) -> None:
    assert selection(query) == chosen


@pytest.mark.parametrize(
    ("query", "param"),
    [
        (b"older_than=", "older_than"),
        (b"older_than=-1", "older_than"),
        (b"older_than=nan", "older_than"),
        (b"older_than=1e3", "older_than"),
        (b"older_than=1h", "older_than"),
        (b"older_than=%D9%A1", "older_than"),
        (b"older_than=1&older_than=2", "older_than"),
        (b"tenant=a&tenant=a", "tenant"),
        (b"older_than_s=1", None),
        (b"Tenant=a", None),
        (b"tenant", None),
        (b"tenant=a&", None),
        (b"tenant=%FF", None),
        (b"tenant=\xff", None),
    ],
)
def test_mistakes_are_named(query: bytes, param: str | None) -> None:
    with pytest.raises(BadRequestError) as error:
        selection(query)
    assert (error.value.param, error.value.code) == (param, "invalid_value")


@given(query=st.binary(max_size=40) | st.text("tenant=&older_than%0", max_size=20).map(str.encode))
def test_any_query_is_read_or_refused(query: bytes) -> None:
    with contextlib.suppress(BadRequestError):
        assert set(selection(query)) <= {"tenant", "scope", "salt", "older_than_s"}


def test_no_error_repeats_a_value() -> None:
    for query in (b"older_than=SECRET", b"SECRET=1", b"salt=SECRET&salt=SECRET", b"salt=SECRET%FF"):
        with pytest.raises(BadRequestError) as error:
            selection(query)
        assert "SECRET" not in error.value.message
