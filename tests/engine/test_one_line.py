from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.one_line import one_line
from paceline_engine.tokenizer.errors import TokenizerLoadError, UnsupportedTokenizerError
from paceline_engine.weights.errors import CorruptCheckpointError


@given(st.text())
def test_anything_becomes_one_printable_line(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert len(shown) <= 603


def test_what_can_be_read_stays() -> None:
    assert one_line("eos_token_id \x85 'é'\n is  none") == "eos_token_id 'é' is none"
    assert one_line("a\x80b") == "a?b"


@pytest.mark.parametrize(
    "error",
    [
        TokenizerLoadError("states \x80 as\nend"),
        UnsupportedTokenizerError("states \x80 as\nend"),
        CorruptCheckpointError("/models/\x80", "states \x80 as\nend"),
    ],
)
def test_errors_of_model_files_are_made_of_it(error: Exception) -> None:
    assert str(error).isprintable()
    assert "states ? as end" in str(error)
