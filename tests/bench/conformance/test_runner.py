from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.conformance import runner
from bench.conformance.bars import OURS, STATIC_PEAK
from bench.conformance.cell import Cell, Score
from bench.conformance.cell_cache import CellCache
from bench.conformance.code_digest import sources
from bench.conformance.runner import Runner
from bench.conformance.tuning import Tuning, load_tunings, save_tunings
from tests.bench.conformance.test_bars import GOOD
from tests.bench.conformance.tiny_case import tiny

TUNINGS = {"tiny": Tuning(budget=512, peak_replicas=2)}
CELLS = [Cell(load="tiny", policy=policy) for policy in (OURS, STATIC_PEAK)]


class Counted(Runner):
    """Counts what is run, instead of running it in processes."""

    ran: list[Cell]

    def _run(self, cells: list[Cell], tunings: dict[str, Tuning]) -> dict[Cell, Score]:  # type: ignore[override]
        self.ran = cells
        for cell in cells:
            self._cache.put(cell, self._evidence(cell, tunings[cell.load]), GOOD)
        return dict.fromkeys(cells, GOOD)


def counted(folder: Path) -> Counted:
    return Counted({"tiny": tiny()}, None, CellCache(folder), 1, lambda *_: None)


def test_what_was_run_before_is_not_run_again(tmp_path: Path) -> None:
    counted(tmp_path).scores(CELLS, TUNINGS)
    again = counted(tmp_path)
    assert again.scores(CELLS, TUNINGS) == dict.fromkeys(CELLS, GOOD)
    assert again.ran == []


def test_what_hindsight_says_anew_is_run_again(tmp_path: Path) -> None:
    counted(tmp_path).scores(CELLS, TUNINGS)
    again = counted(tmp_path)
    again.scores(CELLS, {"tiny": replace(TUNINGS["tiny"], budget=768)})
    assert again.ran == CELLS


def test_settings_of_others_do_not_matter(tmp_path: Path) -> None:
    counted(tmp_path).scores(CELLS, TUNINGS)
    again = counted(tmp_path)
    again.scores(CELLS, {"tiny": replace(TUNINGS["tiny"], settings={"30": {"hpa-cpu": 3}})})
    assert again.ran == []


def test_what_hindsight_knows_is_the_same_once_it_was_read_from_its_file(tmp_path: Path) -> None:
    found = replace(TUNINGS["tiny"], headroom={"30": 1.1, "120": 1.2, "300": 1.5})
    counted(tmp_path / "cache").scores(CELLS, {"tiny": found})
    save_tunings({"tiny": found}, tmp_path / "tuning.json")
    again = counted(tmp_path / "cache")
    again.scores(CELLS, load_tunings(tmp_path / "tuning.json"))
    assert again.ran == []


def test_another_law_runs_only_ours_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(tmp_path).scores(CELLS, TUNINGS)
    real = runner.digest

    def changed(*modules: str, without: tuple[str, ...] = ()) -> str:
        law = "" if "paceline_operator.simulator.autopilot_controller" in without else "new"
        return real(*modules, without=without) + law

    monkeypatch.setattr(runner, "digest", changed)
    again = counted(tmp_path)
    again.scores(CELLS, TUNINGS)
    assert [cell.policy for cell in again.ran] == [OURS]


def test_the_law_is_no_part_of_what_rivals_follow_from() -> None:
    world = set(sources(*runner._WORLD, without=runner._LAW))
    assert "paceline_operator.autopilot.vocabulary.window" in world
    assert "paceline_operator.autopilot.pilot" not in world
    assert "paceline_operator.autopilot.pilot" in set(sources(*runner._WORLD))
