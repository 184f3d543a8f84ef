"""The generator against its authors' known answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.runner.philox import philox, uniform

# Random123's kat_vectors, philox4x32-10.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, int, int, int]
) -> None:
    assert philox(counter, key) == words


@given(st.integers(-(2**63), 2**64 - 1), st.integers(0, 2**40))
def test_uniform_lies_in_the_unit_interval_and_repeats(seed: int, position: int) -> None:
    number = uniform(seed, position)
    assert 0.0 <= number < 1.0
    assert uniform(seed, position) == number


def test_neighbouring_seeds_and_positions_are_unrelated() -> None:
    numbers = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert len(set(numbers)) == len(numbers)
    bins = [sum(1 for n in numbers if int(n * 10) == tenth) for tenth in range(10)]
    assert all(900 < count < 1100 for count in bins)
