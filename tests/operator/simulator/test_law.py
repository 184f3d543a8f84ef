from __future__ import annotations

from paceline_operator.autopilot.plant.law import Law
from paceline_operator.simulator.law import FittedLaw

LAW = FittedLaw(
    decode=Law(base_ms=10.0, per_decode_row_ms=0.5, per_kv_token_ms=0.01),
    prefill=Law(base_ms=4.0, per_prefill_token_ms=0.1, per_chunk_context_ms=1e-3),
)


def test_a_step_without_prompt_tokens_takes_the_time_of_decoding() -> None:
    assert LAW.step_ms(0, 4, 100, 0) == 10.0 + 4 * 0.5 + 100 * 0.01
    assert LAW.per_kv_token_ms == 0.01


def test_a_step_with_prompt_tokens_takes_that_of_its_own_kind() -> None:
    assert LAW.step_ms(50, 4, 100, 2000) == 4.0 + 50 * 0.1 + 2000 * 1e-3
