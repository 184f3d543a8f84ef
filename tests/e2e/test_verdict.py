"""Void before short before ok."""

from __future__ import annotations

import pytest

from e2e.verdict import ExitCode, Verdict, conclude


@pytest.mark.parametrize(
    ("disturbances", "shortfalls", "word", "code"),
    [
        ((), (), "ok", ExitCode.OK),
        ((), ("lost",), "short", ExitCode.SHORT),
        (("busy",), (), "void", ExitCode.VOID),
        (("busy",), ("lost",), "void", ExitCode.VOID),
    ],
)
def test_a_disturbed_run_is_neither_good_nor_bad(
    disturbances: tuple[str, ...], shortfalls: tuple[str, ...], word: str, code: ExitCode
) -> None:
    found = conclude("e2e", disturbances=disturbances, shortfalls=shortfalls, figures="a=1")
    assert found == Verdict(code, (*disturbances, *shortfalls), f"e2e: {word} a=1")
