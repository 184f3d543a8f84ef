"""Steps and stretches against the plain sums over single steps."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.window import StepClass
from paceline_operator.simulator.metering.step_meter import ITL_EDGES, STEP_EDGES, StepMeter, Times
from tests.operator.autopilot.build import moments

LIMIT_S = 0.0333


def counted(edges: tuple[float, ...], values: Iterable[tuple[float, int]]) -> list[float]:
    counts = [0.0] * (len(edges) + 1)
    for value, times in values:
        counts[bisect_left(edges, value)] += times
    return counts


@given(st.integers(0, 2**32), st.integers(0, 12))
def test_totals_are_those_of_the_single_steps(seed: int, events: int) -> None:
    draw, meter = random.Random(seed), StepMeter([LIMIT_S])
    kinds: dict[StepClass, list[tuple[float, float, float, float, float]]] = {}
    steps: list[tuple[float, int, int]] = []
    at_budget = 0
    for _ in range(events):
        rows, batch = draw.choice([0, 1, 9]), draw.choice([0, 0, 3])
        kv_tokens, seconds, full = (
            draw.randrange(9_000),
            draw.uniform(0.001, 0.2),
            draw.random() < 0.5,
        )
        if draw.random() < 0.5 and rows + batch:
            count, growth_s = draw.randrange(1, 60), draw.choice([0.0, 1e-5, 1e-3])
            meter.stretch(
                start_s=0.0, steps=count, interactive_rows=rows, batch_rows=batch,
                kv_tokens=kv_tokens, first_s=seconds, growth_s=growth_s, at_budget=full,
            )  # fmt: skip
            single = [
                (0, rows + batch, kv_tokens + i * (rows + batch), 0, seconds + i * growth_s)
                for i in range(count)
            ]
            kinds.setdefault(StepClass.DECODE_ONLY, []).extend(single)
        else:
            prefill, context = draw.randrange(1, 2_000), draw.randrange(900_000)
            meter.step(
                end_s=0.0, seconds=seconds, prefill_tokens=prefill, interactive_rows=rows,
                batch_rows=batch, kv_tokens=kv_tokens, chunk_context=context, at_budget=full,
            )  # fmt: skip
            single = [(prefill, rows + batch, kv_tokens, context, seconds)]
            kind = StepClass.MIXED if rows + batch else StepClass.PREFILL_ONLY
            kinds.setdefault(kind, []).extend(single)
        steps += [(each[4], rows, batch) for each in single]
        at_budget += len(single) * full

    totals = meter.take()
    assert totals.moments.keys() == kinds.keys()
    for kind, seen in kinds.items():
        assert totals.moments[kind].sums == pytest.approx(moments(*seen).sums, rel=1e-9)
    assert totals.at_budget == at_budget

    def check(found: Times, edges: tuple[float, ...], values: list[tuple[float, int]]) -> None:
        assert totals.grid.folded(found.counts, edges) == counted(edges, values)
        assert found.seconds == pytest.approx(sum(s * n for s, n in values), rel=1e-9)
        within = sum(n for s, n in values if s <= LIMIT_S)
        assert totals.grid.within(found.counts, LIMIT_S) == within

    check(totals.steps, STEP_EDGES, [(s, 1) for s, _, _ in steps])
    check(totals.interactive, ITL_EDGES, [(s, rows) for s, rows, _ in steps])
    check(totals.batch, ITL_EDGES, [(s, batch) for s, _, batch in steps])
    assert not meter.take().moments
