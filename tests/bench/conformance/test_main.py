"""What is asked of the evaluation on its command line."""

from __future__ import annotations

import sys

import pytest

from bench.conformance.__main__ import main


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--only", "setp"], "--only setp: no such load; there are constant, "),
        (["--only", "burst"], "--only burst: not in the quick list; add --full"),
        (["--only", "step", "--only", "burst"], "--only burst: not in the quick list; add --full"),
    ],
)
def test_what_would_run_nothing_is_refused(
    asked: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["conformance", *asked])
    assert main() == 2
    assert said in capsys.readouterr().err
