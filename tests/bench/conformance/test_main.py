"""What is asked of the evaluation on its command line."""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.conformance import result_file
from bench.conformance.__main__ import _search, _to_tune, main
from bench.conformance.cell import Cell, Score
from bench.conformance.runner import Runner
from bench.conformance.tune import completed, hurried, tuned
from bench.conformance.tuning import Tuning
from tests.bench.conformance.test_bars import GOOD
from tests.bench.conformance.tiny_case import tiny


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


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Only what is known is asked for, and nothing can be run; the folder of results."""

    def refused(*_: Any) -> None:
        raise AssertionError("run")

    results = tmp_path / "results"
    folders = ["--cache", f"{tmp_path / 'cache'}", "--results", f"{results}"]
    monkeypatch.setattr(Runner, "_run", refused)
    monkeypatch.setattr(sys, "argv", ["conformance", "--only", "step", "--known", *folders])
    return results


def test_where_nothing_is_known_nothing_is_reported(
    asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main() == 2
    assert capsys.readouterr().err == "conformance: --known: none of these cells was run yet\n"
    assert not asked.exists()


def test_what_is_known_is_reported_with_what_lacks(
    asked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def three(_: Runner, cells: list[Cell], tunings: Any) -> dict[Cell, Score]:
        return dict.fromkeys(cells[:3], GOOD)

    monkeypatch.setattr(Runner, "known", three)
    assert main() == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"conformance: short cells=3 traces=none .*lacking=\d\d", last)
    (result,) = asked.glob("*.json")
    assert result_file.load(result).line == last


USUAL = Tuning(budget=1, peak_replicas=1, settings={"120": {"hpa-cpu": 0}})
WHOLE = Tuning(
    budget=1, peak_replicas=1, settings={s: {"hpa-cpu": 0} for s in ("30", "120", "300")}
)


@pytest.mark.parametrize(
    ("full", "tune", "known", "searched"),
    [
        (True, False, None, tuned),
        (True, False, USUAL, completed),
        (True, False, WHOLE, None),
        (True, True, WHOLE, tuned),
        (False, False, None, hurried),
        (False, False, USUAL, None),
        (False, True, USUAL, tuned),
    ],
)
def test_a_full_run_looks_only_for_what_a_tuning_lacks(
    full: bool, tune: bool, known: Tuning | None, searched: object
) -> None:
    args = argparse.Namespace(full=full, tune=tune, known=False)
    case, tunings = tiny("step"), {} if known is None else {"step": known}
    assert _to_tune(args, case, tunings) is (searched is not None)
    if searched is not None:
        search = _search(args, case, tunings)
        assert (search.func if isinstance(search, partial) else search) is searched
