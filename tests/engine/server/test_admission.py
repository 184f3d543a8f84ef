from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.admission import Admission
from paceline_engine.server.errors import OverloadedError


@pytest.mark.parametrize(
    ("waiting", "new", "code"),
    [
        ([], [50], None),
        ([], [500], None),  # alone, it may be larger than the limit
        ([], [60, 60], "queued_tokens"),
        ([], [60, 40], None),
        ([10], [95], "queued_tokens"),
        ([1, 1], [1], None),
        ([1, 1, 1], [1], "queued_requests"),
        ([], [1, 1, 1, 1], "queued_requests"),
        ([100], [1], "queued_tokens"),
    ],
)
def test_limits(waiting: list[int], new: list[int], code: str | None) -> None:
    admission = Admission(max_requests=3, max_tokens=100)
    for each in waiting:
        admission.enter([each])
    before = (admission.requests, admission.tokens)
    if code is None:
        admission.enter(new)
        return
    with pytest.raises(OverloadedError) as caught:
        admission.enter(new)
    assert caught.value.code == code
    assert caught.value.headers()["retry-after"]
    assert (admission.requests, admission.tokens) == before


@given(st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=4), max_size=20))
def test_what_entered_leaves(calls: list[list[int]]) -> None:
    admission = Admission(max_requests=5, max_tokens=100)
    inside: list[int] = []
    for lengths in calls:
        try:
            admission.enter(lengths)
            inside += lengths
        except OverloadedError:
            admission.leave(inside.pop()) if inside else None
        assert (admission.requests, admission.tokens) == (len(inside), sum(inside))
        assert admission.requests <= 5
