from __future__ import annotations

import pytest

from paceline_operator.cli import progress


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_cannot_draw_gets_lines(
    term: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("FORCE_COLOR", "1")  # to the console, this is a terminal
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with progress.shown() as told:
        told("new spec, seed 1 of 3", 0.25)
        assert capsys.readouterr().err == "new spec, seed 1 of 3: 25 % of the whole\n"
