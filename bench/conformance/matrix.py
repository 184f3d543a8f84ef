"""Which cells are run: the quick list, and the whole of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from bench.conformance import bars
from bench.conformance.cell import Cell
from bench.conformance.contestants import ALL, SETTINGS
from bench.conformance.load_case import LoadCase
from bench.conformance.policies.catalogue import BASELINES
from bench.conformance.tuning import USUAL_S, Tuning

QUICK_LOADS: Final = (
    "step",
    "diurnal",
    "conversations",
    "8k-context",
    "hit-rate-drop",
    "slower-steps",
)
COLD_STARTS_S: Final = (30, 120, 300)
SEEDS: Final = (1, 2, 3)
MOST_QUICK: Final = 300
MOST_QUICK_REQUESTS: Final = 120_000
"""Of a trace that is not known, with all its copies: a known one has 108,000 at most."""
_SWEPT = frozenset(baseline.name for baseline in BASELINES)

Tunings = Mapping[str, Tuning]


def quick(cases: Sequence[LoadCase], tunings: Tunings) -> list[Cell]:
    """At most 300: six loads with everybody, all traces with the best.

    Args:
        cases: All loads there are.
        tunings: What hindsight knows of them.
    """
    cells: list[Cell] = []
    for case in cases:
        tuning = tunings[case.name]
        if case.name in QUICK_LOADS:
            cells += _everybody(case.name, tuning, USUAL_S, seed=1)
            for cold_start_s in COLD_STARTS_S:
                if cold_start_s != USUAL_S:
                    cells += _the_best(case.name, tuning, cold_start_s, seed=1)
        elif case.trace is not None:
            cells += _the_best(case.name, tuning, USUAL_S, seed=1)
    return cells[:MOST_QUICK]


def is_quick(case: LoadCase) -> bool:
    """Whether the quick list has a load."""
    return case.name in QUICK_LOADS or case.trace is not None


def full(cases: Iterable[LoadCase], tunings: Tunings) -> list[Cell]:
    """Every load, cold start and seed with everybody; each baseline's sweep once.

    At other cold starts a baseline is met with the setting that was found there, and with that of
    the usual one: with other seeds one may attain enough where the other does not.
    """
    cells: dict[Cell, None] = {}
    for case in cases:
        tuning = tunings[case.name]
        for cold_start_s in COLD_STARTS_S:
            for seed in SEEDS:
                for found_at_s in (cold_start_s, USUAL_S):
                    cells |= dict.fromkeys(
                        _everybody(case.name, tuning, cold_start_s, seed, found_at_s)
                    )
        cells |= dict.fromkeys(sweeps(case.name))
    return list(cells)


def sweeps(load: str) -> Iterator[Cell]:
    """All settings of all baselines on a load."""
    for baseline in BASELINES:
        for setting in range(SETTINGS):
            yield Cell(load=load, policy=baseline.name, setting=setting, cold_start_s=USUAL_S)


def _everybody(
    load: str, tuning: Tuning, cold_start_s: int, seed: int, found_at_s: int | None = None
) -> list[Cell]:
    """One cell of each, baselines with their settings of that or another cold start."""
    settings = tuning.settings_at(cold_start_s if found_at_s is None else found_at_s)
    return [_cell(load, policy, settings, cold_start_s, seed) for policy in ALL]


def _the_best(load: str, tuning: Tuning, cold_start_s: int, seed: int) -> list[Cell]:
    policies = (bars.OURS, bars.ORACLE, bars.STATIC_PEAK, *tuning.best_at(cold_start_s)[:2])
    settings = tuning.settings_at(cold_start_s)
    return [_cell(load, policy, settings, cold_start_s, seed) for policy in policies]


def _cell(
    load: str, policy: str, settings: Mapping[str, int], cold_start_s: int, seed: int
) -> Cell:
    setting = settings.get(policy) if policy in _SWEPT else None
    return Cell(load=load, policy=policy, setting=setting, cold_start_s=cold_start_s, seed=seed)
