"""Step-time laws of published accelerators, for the simulated device.

Coefficients come from public measurements and are orders of magnitude, not promises: linear
operators from the profiles of the Vidur simulator (sums of medians times layers; attention
and the vocabulary head excluded), the KV term from the bytes of one token's KV cache over
the memory bandwidth. Times in ms, sizes in tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline_engine.config import StepTimeLaw


class UnknownProfileError(ValueError):
    """No profile of that name; the text lists those there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A simulated accelerator with one model on it.

    Attributes:
        law: Step-time law.
        kv_capacity_tokens: KV tokens that fit beside the weights.
        source: Where the coefficients come from.
    """

    law: StepTimeLaw
    kv_capacity_tokens: int
    source: str


PROFILES: dict[str, Profile] = {
    "llama-3-8b-a100": Profile(
        law=StepTimeLaw(
            floor_ms=9.8,
            floor_per_token_ms=0.025,
            base_ms=2.6,
            per_token_ms=0.0668,
            per_kv_token_ms=0.000122,
        ),
        kv_capacity_tokens=430_000,
        source="Vidur Llama-3-8B A100 profile with its weight-read floor; 128 KiB KV per token",
    ),
    "llama-3-8b-h100": Profile(
        law=StepTimeLaw(
            floor_ms=5.8,
            floor_per_token_ms=0.006,
            base_ms=1.5,
            per_token_ms=0.0203,
            per_kv_token_ms=0.000076,
        ),
        kv_capacity_tokens=430_000,
        source="Vidur Llama-2-7B H100 profile with its weight-read floor; 128 KiB KV per token",
    ),
    "llama-3-70b-a100-tp4": Profile(
        law=StepTimeLaw(
            floor_ms=25.0,
            floor_per_token_ms=0.069,
            base_ms=16.2,
            per_token_ms=0.161,
            per_kv_token_ms=0.000076,
        ),
        kv_capacity_tokens=430_000,
        source="Vidur Llama-3-70B TP4 A100 profile (n = 1 and 128 give the floor), all-reduce "
        "excluded; 320 KiB KV per token spread over four devices",
    ),
    "llama-2-70b-h100-tp4": Profile(
        law=StepTimeLaw(
            floor_ms=14.5,
            floor_per_token_ms=0.0134,
            base_ms=10.0,
            per_token_ms=0.0536,
            per_kv_token_ms=0.0000475,
        ),
        kv_capacity_tokens=430_000,
        source="Vidur Llama-2-70B TP4 H100 profile (n = 1 and 128 give the floor), all-reduce "
        "excluded; 320 KiB KV per token spread over four devices",
    ),
}


def find_profile(name: str) -> Profile:
    """Profile of that name.

    Raises:
        UnknownProfileError: There is none; says which there are.
    """
    if name not in PROFILES:
        known = ", ".join(sorted(PROFILES))
        raise UnknownProfileError(f"unknown simulated profile {name!r}: choose one of {known}")
    return PROFILES[name]
