from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from paceline_operator.autopilot.vocabulary.window import Moments, StepClass
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.law_fit import TooFewStepsError, fit_law
from tests.operator.autopilot.build import moments

LAW = StepLaw(
    base_ms=12.0,
    per_prefill_token_ms=1.9,
    per_decode_row_ms=1.6,
    per_kv_token_ms=2e-3,
    per_chunk_context_ms=1.2e-4,
)
Load = Callable[[random.Random], tuple[int, int, int, int]]


def decoding(draw: random.Random) -> tuple[int, int, int, int]:
    rows = draw.randrange(1, 32)
    return 0, rows, rows * draw.randrange(100, 1500), 0


def mixed(draw: random.Random) -> tuple[int, int, int, int]:
    _, rows, kv_tokens, _ = decoding(draw)
    tokens = draw.randrange(16, 512)
    return tokens, rows, kv_tokens + tokens, tokens * draw.randrange(tokens, 1500)


def steps(load: Load, law: StepLaw, count: int = 200, noise: float = 0.0) -> Moments:
    draw = random.Random(7)
    seen = []
    for _ in range(count):
        carried = load(draw)
        seconds = law.step_ms(*carried) / 1e3 * (1.0 + noise * draw.gauss(0.0, 1.0))
        seen.append((*carried, seconds))
    return moments(*seen)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_law_behind_the_steps_is_found(noise: float) -> None:
    found = fit_law(
        {
            StepClass.DECODE_ONLY: steps(decoding, LAW, 2_000, noise),
            StepClass.MIXED: steps(mixed, LAW, 500, noise),
        }
    )
    for load in (decoding, mixed):
        for seed in range(20):
            carried = load(random.Random(f"unseen {seed}"))
            predicted = found.law.step_ms(*carried)
            assert predicted == pytest.approx(LAW.step_ms(*carried), rel=0.01 + noise)
    assert found.decode_error == pytest.approx(noise, abs=0.02)
    assert found.prefill_error == pytest.approx(noise, abs=0.02)


def test_nothing_costs_less_than_nothing() -> None:
    """Prompts that seem to cost nothing, by chance, do not make steps shorter."""
    found = fit_law(
        {
            StepClass.DECODE_ONLY: steps(decoding, LAW),
            StepClass.PREFILL_ONLY: steps(
                mixed, StepLaw(base_ms=5.0, per_prefill_token_ms=0.0, per_decode_row_ms=0.0)
            ),
        }
    )
    assert found.law.per_prefill_token_ms == found.law.per_chunk_context_ms == 0.0
    assert found.prefill_error > 0.1


@pytest.mark.parametrize(
    ("kind", "word"), [(StepClass.DECODE_ONLY, "with"), (StepClass.MIXED, "without")]
)
def test_either_kind_of_steps_is_needed(kind: StepClass, word: str) -> None:
    with pytest.raises(TooFewStepsError, match=f"0 steps {word} prompt tokens"):
        fit_law({kind: steps(mixed, LAW)})
