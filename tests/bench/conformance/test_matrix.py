from __future__ import annotations

from bench.conformance import bars, matrix
from bench.conformance.contestants import ALL
from bench.conformance.loads import loads
from bench.conformance.policies.catalogue import BASELINES
from bench.conformance.tuning import Tuning

CASES = loads(None)
TUNING = Tuning(
    budget=512,
    peak_replicas=4,
    settings={
        start: {baseline.name: place for baseline in BASELINES}
        for start, place in (("30", 3), ("120", 2), ("300", 1))
    },
    best={
        "30": ("wva-v1", "keda-kv", "hpa-cpu"),
        "120": ("keda-waiting", "hpa-cpu", "kpa-knative"),
        "300": ("hpa-cpu", "kpa-aibrix", "keda-kv"),
    },
)
TUNINGS = {case.name: TUNING for case in CASES}


def test_the_quick_list_is_short_and_has_everybody_on_six_loads() -> None:
    cells = matrix.quick(CASES, TUNINGS)
    assert len(set(cells)) == len(cells) <= matrix.MOST_QUICK
    assert {cell.load for cell in cells} == set(matrix.QUICK_LOADS)
    for load in matrix.QUICK_LOADS:
        usual = {c.policy for c in cells if c.load == load and c.cold_start_s == 120}
        assert usual == set(ALL)
        for cold_start_s in (30, 300):
            others = {c.policy for c in cells if (c.load, c.cold_start_s) == (load, cold_start_s)}
            assert others == {
                bars.OURS,
                bars.ORACLE,
                bars.STATIC_PEAK,
                *TUNING.best_at(cold_start_s)[:2],
            }


def test_the_quick_list_has_every_load_whose_regime_changes() -> None:
    assert {case.name for case in CASES if case.changes_regime} <= set(matrix.QUICK_LOADS)


def test_baselines_run_at_the_setting_that_hindsight_chose_for_their_cold_start() -> None:
    cells = matrix.quick(CASES, TUNINGS)
    found = {(c.cold_start_s, c.setting) for c in cells if c.policy == "hpa-cpu"}
    assert found == {(120, 2), (300, 1)}
    assert {c.setting for c in cells if c.policy == bars.OURS} == {None}


def test_until_a_cold_start_has_settings_those_of_the_usual_one_are_taken() -> None:
    tuning = Tuning(
        budget=512,
        peak_replicas=4,
        settings={"120": TUNING.settings["120"]},
        best={"120": TUNING.best["120"]},
    )
    cells = matrix.quick(CASES, dict.fromkeys(TUNINGS, tuning))
    assert {c.setting for c in cells if c.policy == "hpa-cpu"} == {2}
    assert {c.policy for c in cells if c.cold_start_s == 30 and c.setting is not None} == {
        "keda-waiting", "hpa-cpu",
    }  # fmt: skip


def test_the_full_list_has_every_load_cold_start_and_seed_and_each_sweep_once() -> None:
    cells = matrix.full(CASES, TUNINGS)
    assert len(set(cells)) == len(cells)
    ours = {(c.load, c.cold_start_s, c.seed) for c in cells if c.policy == bars.OURS}
    assert len(ours) == len(CASES) * 3 * 3
    sweep = {c.setting for c in cells if (c.load, c.policy) == ("step", "hpa-cpu")}
    assert sweep == set(range(5))
    others = {
        (c.cold_start_s, c.setting, c.seed)
        for c in cells
        if (c.load, c.policy) == ("step", "hpa-cpu") and c.cold_start_s != 120
    }
    # Those found there, and at the usual cold start.
    places = ((30, 3), (30, 2), (300, 1), (300, 2))
    assert others == {(start, place, seed) for start, place in places for seed in (1, 2, 3)}
