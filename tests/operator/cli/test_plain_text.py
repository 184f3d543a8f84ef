from __future__ import annotations

import pytest

from paceline_operator.cli.plain_text import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, l\u00f6\u00e4d", "plain, l\u00f6\u00e4d"),
        ("a\nb\r\t", r"a\nb\r\t"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\u2028\u202e\x85", r"\u2028\u202e\x85"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_is_not_printable_is_an_escape(text: str, shown: str) -> None:
    assert one_line(text) == shown
