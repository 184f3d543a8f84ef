from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.admin_wire import Knobs, TunablesRequest
from paceline_engine.server.errors import ConflictError
from paceline_engine.server.tunables import Tunables
from tests.support.engine_config import engine_config


def request(revision: int, budget: int = 128) -> TunablesRequest:
    return TunablesRequest(revision=revision, max_num_batched_tokens=budget, max_num_running_seqs=4)


KNOBS = Knobs(max_num_batched_tokens=128, max_num_running_seqs=4)


def test_the_first_put_may_have_revision_zero() -> None:
    tunables = Tunables(engine_config())
    assert tunables.is_new(request(0))
    tunables.accept(request(0), KNOBS)
    assert not tunables.is_new(request(0))
    with pytest.raises(ConflictError):
        tunables.is_new(request(0, budget=256))


@given(st.lists(st.integers(0, 5)))
def test_the_revision_never_falls(revisions: list[int]) -> None:
    tunables = Tunables(engine_config())
    for revision in revisions:
        before = tunables.revision
        try:
            if tunables.is_new(request(revision)):
                tunables.accept(request(revision), KNOBS)
        except ConflictError:
            assert revision < before
        assert tunables.revision == max(before, revision)


@pytest.mark.parametrize(
    ("running", "ceiling", "floor"), [(4, 512, 16), (15, 512, 16), (16, 512, 32), (16, 24, 24)]
)
def test_floor_follows_the_cap_in_force(running: int, ceiling: int, floor: int) -> None:
    tunables = Tunables(engine_config(max_num_batched_tokens=ceiling))
    report = tunables.report(Knobs(max_num_batched_tokens=64, max_num_running_seqs=running))
    assert report.floor.max_num_batched_tokens == floor
