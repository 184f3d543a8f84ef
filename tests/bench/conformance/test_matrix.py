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
    settings={baseline.name: 2 for baseline in BASELINES},
    best=("keda-waiting", "hpa-cpu", "kpa-knative"),
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
            assert others == {bars.OURS, bars.ORACLE, bars.STATIC_PEAK, *TUNING.best[:2]}


def test_the_quick_list_has_every_load_whose_regime_changes() -> None:
    assert {case.name for case in CASES if case.changes_regime} <= set(matrix.QUICK_LOADS)


def test_baselines_run_at_the_setting_that_hindsight_chose() -> None:
    cells = matrix.quick(CASES, TUNINGS)
    assert {c.setting for c in cells if c.policy == "kpa-aibrix"} == {2}
    assert {c.setting for c in cells if c.policy == bars.OURS} == {None}


def test_the_full_list_has_every_load_cold_start_and_seed_and_each_sweep_once() -> None:
    cells = matrix.full(CASES, TUNINGS)
    assert len(set(cells)) == len(cells)
    ours = {(c.load, c.cold_start_s, c.seed) for c in cells if c.policy == bars.OURS}
    assert len(ours) == len(CASES) * 3 * 3
    sweep = {c.setting for c in cells if (c.load, c.policy) == ("step", "hpa-cpu")}
    assert sweep == set(range(5))
