"""What hindsight finds, on a made-up fleet whose answers are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.conformance import bars
from bench.conformance.cell import Cell, Score
from bench.conformance.policies.catalogue import BASELINES
from bench.conformance.tune import completed, hurried, likely_budgets, tuned
from bench.conformance.tuning import Tuning, TuningError, load_tunings, save_tunings
from tests.bench.conformance.test_bars import GOOD
from tests.bench.conformance.tiny_case import tiny

NEEDED = {512: 5, 1024: 4, 2048: 6}
"""Static replicas that hold the objectives, by budget; others never do."""


class World:
    """Answers cells by rule; counts them."""

    def __init__(
        self, ours: float = 0.96, needed: Mapping[int, int] = NEEDED, slower: float = 0.0
    ) -> None:
        self.slower = slower
        self.ours = ours
        self.needed = needed
        self.asked: list[Cell] = []
        self.batches = 0

    def __call__(
        self, cells: Iterable[Cell], tunings: Mapping[str, Tuning]
    ) -> Mapping[Cell, Score]:
        self.batches += 1
        return {cell: self._score(cell, tunings[cell.load]) for cell in cells}

    def _score(self, cell: Cell, tuning: Tuning) -> Score:
        self.asked.append(cell)
        if cell.policy == bars.STATIC_PEAK:
            enough = tuning.peak_replicas >= self.needed.get(tuning.budget, 99)
            return replace(GOOD, attainment=0.98 if enough else 0.5 + 1e-6 * tuning.budget)
        if cell.policy == bars.ORACLE:
            enough = tuning.headroom[f"{cell.cold_start_s}"] >= 1.35
            return replace(GOOD, attainment=0.97 if enough else 0.9)
        if cell.policy == bars.OURS:
            return replace(GOOD, attainment=self.ours)
        place = cell.setting or 0
        lost = self.slower if cell.cold_start_s == 300 else 0.0
        return replace(GOOD, attainment=1.0 - lost - 0.02 * place, replica_hours=10.0 - place)


def places(found: Tuning) -> dict[str, set[int]]:
    """What settings were chosen, by cold start."""
    return {start: set(chosen.values()) for start, chosen in found.settings.items()}


def test_hindsight_finds_budget_replicas_headroom_and_settings() -> None:
    world = World()
    found = tuned(tiny(), world)
    assert (found.budget, found.peak_replicas) == (1024, 4)
    assert set(found.headroom.values()) == {1.35}
    assert set(found.headroom) == {"30", "120", "300"}
    assert places(found) == {"30": {2}, "120": {2}, "300": {2}}  # 0.96 as ours, at 8 hours
    for order in found.best.values():
        assert set(order) == {baseline.name for baseline in BASELINES}
    assert len(world.asked) < 190


@pytest.mark.parametrize(
    ("needed", "budget", "replicas"),
    [
        ({768: 3, 1024: 3}, 768, 3),
        ({768: 3, 1024: 4, 2048: 1}, 2048, 1),
        ({1024: 24}, 1024, 24),
        ({1024: 1, 1536: 1}, 1024, 1),
        ({}, 2048, 24),
    ],
)
def test_the_first_of_the_budgets_with_the_fewest_static_replicas(
    needed: dict[int, int], budget: int, replicas: int
) -> None:
    """Where none holds the objectives: all replicas, and the budget that attains most."""
    world = World(needed=needed)
    found = tuned(tiny(), world)
    assert (found.budget, found.peak_replicas) == (budget, replicas)
    assert sum(cell.policy == bars.STATIC_PEAK for cell in world.asked) <= 3 + 6 + 6


@pytest.mark.parametrize(
    ("ours", "place"), [(1.01, 0), (1.0, 0), (0.98, 1), (0.96, 2), (0.94, 3), (0.92, 4), (0.5, 4)]
)
def test_in_a_hurry_the_same_is_found_by_fewer_cells(ours: float, place: int) -> None:
    slow, fast = World(ours), World(ours)
    whole, found = tuned(tiny(), slow), hurried(tiny(), fast)
    assert places(found) == {"120": {place}}
    assert places(whole) == {start: {place} for start in ("30", "120", "300")}
    assert found == replace(
        whole,
        headroom={"120": 1.35},
        settings={"120": whole.settings["120"]},
        best={"120": whole.best["120"]},
    )
    swept = [cell for cell in fast.asked if cell.setting is not None]
    assert len(swept) == len(set(swept)) <= 3 * len(BASELINES)
    assert len(fast.asked) < len(slow.asked) - 2 * len(BASELINES)


def test_where_nobody_attains_enough_the_nearest_setting_is_kept() -> None:
    assert set(places(tuned(tiny(), World(ours=1.01)))["300"]) == {0}


def test_each_cold_start_has_its_own_settings() -> None:
    found = tuned(tiny(), World(slower=0.02))
    assert places(found) == {"30": {2}, "120": {2}, "300": {1}}


def test_only_the_settings_that_lack_are_looked_for() -> None:
    whole = tuned(tiny(), World(slower=0.02))
    usual = replace(whole, settings={"120": whole.settings["120"]}, best={"120": whole.best["120"]})
    world = World(slower=0.02)
    assert completed(usual, tiny(), world) == whole
    assert {cell.cold_start_s for cell in world.asked} == {30, 300}
    assert {cell.policy for cell in world.asked} == {bars.OURS, *(each.name for each in BASELINES)}
    assert len(world.asked) <= 2 * (1 + 3 * len(BASELINES))
    assert world.batches <= 1 + 3


def test_nothing_is_looked_for_where_nothing_lacks() -> None:
    whole, world = tuned(tiny(), World()), World()
    assert completed(whole, tiny(), world) == whole
    assert world.asked == []


def test_only_budgets_near_the_target_are_tried() -> None:
    """Full steps of the profile take 1.5 + 0.0203 B ms: 16 to 65 ms are near a target of 50."""
    assert likely_budgets(tiny()) == [768, 1024, 1536, 2048]


def test_what_was_found_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    assert load_tunings(path) == {}
    found = {"tiny": tuned(tiny(), World())}
    save_tunings(found, path)
    assert load_tunings(path) == found


def test_settings_written_for_the_usual_cold_start_alone_are_read(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    path.write_text(
        '{"tiny": {"budget": 256, "peak_replicas": 3, "settings": {"hpa-cpu": 3},'
        ' "best": ["hpa-cpu"]}}'
    )
    found = load_tunings(path)["tiny"]
    assert found == Tuning(
        budget=256,
        peak_replicas=3,
        settings={"120": {"hpa-cpu": 3}},
        best={"120": ("hpa-cpu",)},
    )
    assert found.settings_at(30) == {"hpa-cpu": 3}
    assert found.best_at(300) == ("hpa-cpu",)
    assert found.lacking((30, 120, 300)) == [30, 300]


@pytest.mark.parametrize("text", ["{", '{"tiny": {"budget": 1}}', '{"tiny": {"odd": 1}}'])
def test_a_damaged_file_is_named_with_its_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tuning.json"
    path.write_text(text)
    with pytest.raises(TuningError, match="make conformance-full"):
        load_tunings(path)
