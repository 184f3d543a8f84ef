from __future__ import annotations

import pytest

from paceline_engine.config import StepTimeLaw
from paceline_engine.start_error import StartError
from paceline_engine.step_law import parse_law


def test_law() -> None:
    assert parse_law("base_ms=1.5,per_token_ms=0.1,floor_ms=3") == StepTimeLaw(
        base_ms=1.5, per_token_ms=0.1, floor_ms=3
    )


@pytest.mark.parametrize("text", ["", "base_ms", "base_ms=1,per_token_ms=nan", "x=1"])
def test_no_law(text: str) -> None:
    with pytest.raises(StartError, match="--step-coefficients"):
        parse_law(text)
