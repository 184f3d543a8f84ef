"""What is said of a write to `/scale`."""

from __future__ import annotations

import logging

import pytest

from paceline_operator.domain.scale_in import Moves
from paceline_operator.reconcile.replica_moves import carry_out
from tests.operator.reconcile.test_decide import seen
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)


@pytest.mark.parametrize(
    ("replicas", "said"), [(2, []), (3, ["scaled d/chat from 2 to 3"])], ids=["claimed", "scaled"]
)
async def test_only_a_write_that_changes_replicas_is_told_as_a_scaling(
    caplog: pytest.LogCaptureFixture, replicas: int, said: list[str]
) -> None:
    ctx = made_context(FailingApi(), ObedientEngines(), NoMetrics())
    with caplog.at_level(logging.INFO):
        await carry_out(ctx, ctx.session(KEY), seen(), Moves(scale=replicas))
    assert caplog.messages == said
    assert ctx.session(KEY).target == replicas
