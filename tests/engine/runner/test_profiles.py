"""The named laws stay near the measurements they were made from."""

from __future__ import annotations

import pytest

from paceline_engine.runner.profiles import PROFILES, UnknownProfileError, find_profile
from paceline_engine.runner.simulated import step_seconds

SIZES = (1, 128, 256, 512, 1024, 2048, 4096)
MEASURED_MS = {
    "llama-3-8b-a100": (9.8, 13.3, 19.6, 34.8, 75.6, 146, 275),
    "llama-3-8b-h100": (5.6, 6.4, 9.2, 12.1, 21.2, 40.8, 84.5),
    "llama-3-70b-a100-tp4": (25.0, 33.8, 51.4, 90.8, 189, 340, 665),
    "llama-2-70b-h100-tp4": (14.5, 16.2, 19.5, 30.6, 63.2, 113, 228),
}
"""Linear operators of one forward pass, Vidur's published profiles: medians x layers."""


def test_every_profile_has_its_measurements() -> None:
    assert set(PROFILES) == set(MEASURED_MS)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_law_is_within_a_quarter_of_every_measurement(name: str) -> None:
    law = find_profile(name).law
    modelled = [step_seconds(law, size, 0) * 1e3 for size in SIZES]
    assert modelled == [pytest.approx(ms, rel=0.25) for ms in MEASURED_MS[name]]


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_more_tokens_and_more_context_take_longer(name: str) -> None:
    profile = find_profile(name)
    assert profile.kv_capacity_tokens > 8192
    assert profile.source
    times = [step_seconds(profile.law, size, 0) for size in SIZES]
    assert times == sorted(times)
    assert step_seconds(profile.law, 1, 8192) > step_seconds(profile.law, 1, 0)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownProfileError, match=r"'b200'.*llama-3-8b-h100"):
        find_profile("b200")
