"""What is believed of step times before any step was seen.

Named profiles are those of the simulated device (the engine's `runner/profiles.py`, from
the published profiles of the Vidur simulator): known well. Anything else starts from one
generic shape, whose scale is taken from the first steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline_operator.autopilot.plant.law import Law


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Coefficients with their spread.

    Attributes:
        decode: Steps without prompt tokens.
        prefill: Steps with prompt tokens.
        relative_sd: Standard deviation of each coefficient, as a share of it.
        scale_free: Whether only ratios of the coefficients are believed.
    """

    decode: Law
    prefill: Law
    relative_sd: float
    scale_free: bool = False


GENERIC = Prior(
    decode=Law(base_ms=15.0, per_decode_row_ms=0.3, per_kv_token_ms=1e-4),
    prefill=Law(
        base_ms=12.0,
        per_prefill_token_ms=0.1,
        per_decode_row_ms=0.3,
        per_kv_token_ms=1e-4,
        per_chunk_context_ms=1e-6,
    ),
    relative_sd=3.0,
    scale_free=True,
)


def _profile(
    floor: tuple[float, float], line: tuple[float, float], per_kv_token_ms: float
) -> Prior:
    """From floor and line of T = max(floor, line) + c k; small steps lie on the floor."""
    return Prior(
        decode=Law(base_ms=floor[0], per_decode_row_ms=floor[1], per_kv_token_ms=per_kv_token_ms),
        prefill=Law(
            base_ms=line[0],
            per_prefill_token_ms=line[1],
            per_decode_row_ms=line[1],
            per_kv_token_ms=per_kv_token_ms,
            # Not in the simulated law; a trace of it keeps the regression well posed.
            per_chunk_context_ms=1e-9,
        ),
        relative_sd=0.1,
    )


PROFILES: dict[str, Prior] = {
    "llama-3-8b-a100": _profile((9.8, 0.025), (2.6, 0.0668), 0.000122),
    "llama-3-8b-h100": _profile((5.8, 0.006), (1.5, 0.0203), 0.000076),
    "llama-3-70b-a100-tp4": _profile((25.0, 0.069), (16.2, 0.161), 0.000076),
    "llama-2-70b-h100-tp4": _profile((14.5, 0.0134), (10.0, 0.0536), 0.0000475),
}


def prior_of(profile: str | None) -> Prior:
    """The named one, or the generic one where the name says nothing."""
    return PROFILES.get(profile or "", GENERIC)
