"""Coefficients of the model as figures of a decision."""

from __future__ import annotations

from paceline_operator.autopilot.plant.law import Law
from paceline_operator.autopilot.vocabulary.decision import Inputs


def law_figures(law: Law, steps: str) -> Inputs:
    """Coefficients of formula (1), of steps with prompt tokens or of those without."""
    found: Inputs = {
        f"{steps}BaseMs": law.base_ms,
        f"{steps}PerRowMs": law.per_decode_row_ms,
        f"{steps}PerKvTokenMs": law.per_kv_token_ms,
    }
    if steps == "prefill":
        found["prefillPerPromptTokenMs"] = law.per_prefill_token_ms
        found["prefillPerChunkContextMs"] = law.per_chunk_context_ms
    return found
