"""Step-time laws of named accelerators: those of the engine's simulated device, and our CPU's.

`tests/contract` compares the former with the engine's `runner/profiles.py`, which says how they
were found; the latter is fitted to measured steps by `bench/fit_cpu_profile.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.step_noise import NO_NOISE, StepNoise


class UnknownProfileError(ValueError):
    """No profile of that name; the text lists those there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One model on one accelerator.

    Attributes:
        law: Step time.
        kv_capacity_tokens: KV tokens that fit beside the weights.
        source: Where the numbers come from.
        step_noise: How far single steps lie from the law.
    """

    law: StepLaw
    kv_capacity_tokens: int
    source: str
    step_noise: StepNoise = NO_NOISE


def _published(
    floor: tuple[float, float], line: tuple[float, float], per_kv_token_ms: float, source: str
) -> Profile:
    """From floor and line of a law that tells prompt tokens and decode rows not apart."""
    law = StepLaw(
        floor_ms=floor[0],
        floor_per_token_ms=floor[1],
        base_ms=line[0],
        per_prefill_token_ms=line[1],
        per_decode_row_ms=line[1],
        per_kv_token_ms=per_kv_token_ms,
    )
    return Profile(law=law, kv_capacity_tokens=430_000, source=source)


PROFILES: Mapping[str, Profile] = {
    "llama-3-8b-a100": _published(
        (9.8, 0.025), (2.6, 0.0668), 0.000122, "Vidur's profile of Llama-3-8B on an A100"
    ),
    "llama-3-8b-h100": _published(
        (5.8, 0.006), (1.5, 0.0203), 0.000076, "Vidur's profile of Llama-2-7B on an H100"
    ),
    "llama-3-70b-a100-tp4": _published(
        (25.0, 0.069), (16.2, 0.161), 0.000076, "Vidur's profile of Llama-3-70B on four A100"
    ),
    "llama-2-70b-h100-tp4": _published(
        (14.5, 0.0134), (10.0, 0.0536), 0.0000475, "Vidur's profile of Llama-2-70B on four H100"
    ),
    "smollm2-135m-cpu2": Profile(
        law=StepLaw(
            base_ms=25.2,
            per_prefill_token_ms=1.09,
            per_decode_row_ms=1.54,
            per_kv_token_ms=0.00234,
            per_chunk_context_ms=0.000343,
        ),
        kv_capacity_tokens=65_536,
        source="steps of our CPU engine on two cores: bench/results/"
        "cpu-profile-2026-11-30-185856.json",
        step_noise=StepNoise(decode=0.265, prefill=0.114),
    ),
}


def find_profile(name: str) -> Profile:
    """Profile of that name.

    Raises:
        UnknownProfileError: There is none; says which there are.
    """
    if name not in PROFILES:
        known = ", ".join(sorted(PROFILES))
        raise UnknownProfileError(f"unknown profile {name!r}: choose one of {known}")
    return PROFILES[name]
