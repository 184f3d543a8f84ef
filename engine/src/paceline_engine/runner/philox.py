"""Uniform numbers as a pure function of (seed, position): the Philox 4x32-10 generator.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A
counter-based generator has no state to carry, so preemption, chunking and batch mates
cannot move a draw.
"""

from __future__ import annotations

from typing import Final

_ROUNDS: Final = 10
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_MASK: Final = 0xFFFFFFFF


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Four 32-bit words from a 128-bit counter and a 64-bit key, low words first."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (second >> 32) ^ c1 ^ k0,
            second & _MASK,
            (first >> 32) ^ c3 ^ k1,
            first & _MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) with 53 random bits.

    Args:
        seed: Taken modulo 2^64.
        position: Absolute position of the token to draw, not negative.
    """
    key = (seed & _MASK, seed >> 32 & _MASK)
    low, high, _, _ = philox((position & _MASK, position >> 32 & _MASK, 0, 0), key)
    return ((high << 32 | low) >> 11) / (1 << 53)
