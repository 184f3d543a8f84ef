"""Finds what hindsight knows of a load, by running it: see `tuning`.

`tuned` plays every setting of every baseline at the usual cold start, and halves at the others: it
takes settings to attain less from the dear to the cheap. `completed` finds only what a tuning
lacks. `hurried` is for the quick run and loads that nobody has tuned yet: the usual cold start
alone, by halves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil

from bench.conformance import bars
from bench.conformance.cell import Cell, Score
from bench.conformance.contestants import MOST_REPLICAS, SETTINGS
from bench.conformance.load_case import LoadCase
from bench.conformance.matrix import COLD_STARTS_S, sweeps
from bench.conformance.policies.catalogue import BASELINES
from bench.conformance.shape import measure
from bench.conformance.sizing import BUDGETS, replica_rps
from bench.conformance.tuning import USUAL_S, Tuning

HEADROOMS = (0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
_NEAR = (0.3, 1.3)

Ask = Callable[[Iterable[Cell], Mapping[str, Tuning]], Mapping[Cell, Score]]
"""Runs cells."""


def tuned(case: LoadCase, ask: Ask) -> Tuning:
    """Static budget and replicas, then the oracle's headroom, then every baseline's setting."""
    found = _with_headroom(case, _with_static(case, ask), COLD_STARTS_S, ask)
    ours = Cell(load=case.name, policy=bars.OURS, cold_start_s=USUAL_S)
    scores = ask([ours, *sweeps(case.name)], {case.name: found})
    return completed(_with_settings(found, ours, scores), case, ask)


def completed(tuning: Tuning, case: LoadCase, ask: Ask) -> Tuning:
    """With the settings of the cold starts that lack them; nothing else is changed."""
    return _halved(tuning, case, tuning.lacking(COLD_STARTS_S), ask)


def hurried(case: LoadCase, ask: Ask) -> Tuning:
    """The same for the usual cold start, by half the settings."""
    found = _with_headroom(case, _with_static(case, ask), (USUAL_S,), ask)
    return _halved(found, case, (USUAL_S,), ask)


@dataclass(slots=True)
class Halving:
    """The search for the cheapest of a baseline's settings that attains enough.

    Attributes:
        enough: The cheapest known to attain enough, -1 for none.
        most: The cheapest that may.
    """

    enough: int = -1
    most: int = SETTINGS - 1

    @property
    def is_open(self) -> bool:
        """Whether there is one to try."""
        return self.enough < self.most

    @property
    def middle(self) -> int:
        """The one to try."""
        return (self.enough + self.most + 1) // 2

    def narrow(self, *, is_enough: bool) -> None:
        """It was tried."""
        if is_enough:
            self.enough = self.middle
        else:
            self.most = self.middle - 1


def _halved(tuning: Tuning, case: LoadCase, cold_starts_s: Iterable[int], ask: Ask) -> Tuning:
    """Settings for all these cold starts at once: each round is one batch of cells."""
    ours = [Cell(load=case.name, policy=bars.OURS, cold_start_s=each) for each in cold_starts_s]
    scores = dict(ask(ours, {case.name: tuning}))
    halves = {(cell, baseline.name): Halving() for cell in ours for baseline in BASELINES}
    while cells := {
        replace(cell, policy=name, setting=half.middle): (scores[cell].attainment, half)
        for (cell, name), half in halves.items()
        if half.is_open
    }:
        asked = ask(cells, {case.name: tuning})
        for cell, (wanted, half) in cells.items():
            half.narrow(is_enough=asked[cell].attainment >= wanted)
        scores |= asked
    for cell in ours:
        tuning = _with_settings(tuning, cell, scores)
    return tuning


def needed(case: LoadCase) -> tuple[int, int]:
    """Replicas by the model: for the load's first five minutes, and on average."""
    shape = measure(case.play(random.Random(1)))
    needs = [part.rps / replica_rps(case.service, part.workload) for part in shape.stretches]
    return _whole(needs[0]), _whole(sum(needs) / len(needs))


def _whole(replicas: float) -> int:
    return min(MOST_REPLICAS, max(1, ceil(replicas)))


def likely_budgets(case: LoadCase) -> list[int]:
    """Budgets whose full steps are not hopelessly far from the ITL target."""
    service = case.service
    law, (least, most) = service.accelerator.law, _NEAR
    within = [b for b in BUDGETS if b <= service.max_num_batched_tokens]
    shares = {budget: law.step_ms(budget, 0, 0, 0) / service.itl_ms for budget in within}
    return [budget for budget, share in shares.items() if least <= share <= most] or within[:1]


def _with_static(case: LoadCase, ask: Ask) -> Tuning:
    """The fewest replicas that hold the objectives with some budget, and that budget."""
    first, mean = needed(case)
    start = Tuning(budget=0, peak_replicas=1, first_replicas=first, mean_replicas=mean)
    found, reached = start, -1.0
    for budget in likely_budgets(case):
        if reached < bars.ORACLE_ATTAINMENT:
            made = replace(start, budget=budget, peak_replicas=MOST_REPLICAS)
        elif found.peak_replicas > 1:
            made = replace(start, budget=budget, peak_replicas=found.peak_replicas - 1)
        else:
            break
        # Another budget is better where it holds with fewer, and worth a search only then.
        attainment = _static(case, made, ask)
        if attainment >= bars.ORACLE_ATTAINMENT:
            found, reached = _fewest(case, made, ask), attainment
        elif attainment > reached:
            found, reached = made, attainment
    return found


def _fewest(case: LoadCase, tuning: Tuning, ask: Ask) -> Tuning:
    """By halving, from as many as are given: more replicas never attain less."""
    low, high = 1, tuning.peak_replicas
    while low < high:
        middle = (low + high) // 2
        made = replace(tuning, peak_replicas=middle)
        if _static(case, made, ask) >= bars.ORACLE_ATTAINMENT:
            high = middle
        else:
            low = middle + 1
    return replace(tuning, peak_replicas=low)


def _static(case: LoadCase, tuning: Tuning, ask: Ask) -> float:
    """Attainment of a fleet that stays as it is."""
    cell = Cell(load=case.name, policy=bars.STATIC_PEAK, cold_start_s=USUAL_S)
    return ask([cell], {case.name: tuning})[cell].attainment


def _with_headroom(
    case: LoadCase, tuning: Tuning, cold_starts_s: Iterable[int], ask: Ask
) -> Tuning:
    found = {
        f"{cold_start_s}": _least_headroom(case, tuning, cold_start_s, ask)
        for cold_start_s in cold_starts_s
    }
    return replace(tuning, headroom=found)


def _least_headroom(case: LoadCase, tuning: Tuning, cold_start_s: int, ask: Ask) -> float:
    """The smallest with which the oracle reaches 97 %; the one with its best where none does."""
    cell = Cell(load=case.name, policy=bars.ORACLE, cold_start_s=cold_start_s)
    seen: dict[float, float] = {}
    low, high = 0, len(HEADROOMS) - 1
    while low < high:
        middle = (low + high) // 2
        headroom = HEADROOMS[middle]
        made = replace(tuning, headroom={f"{cold_start_s}": headroom})
        seen[headroom] = ask([cell], {case.name: made})[cell].attainment
        if seen[headroom] >= bars.ORACLE_ATTAINMENT:
            high = middle
        else:
            low = middle + 1
    return HEADROOMS[low]


def _with_settings(tuning: Tuning, ours: Cell, scores: Mapping[Cell, Score]) -> Tuning:
    """With those for the cold start of a cell of ours."""
    wanted, key = scores[ours].attainment, f"{ours.cold_start_s}"
    same = {cell: each for cell, each in scores.items() if cell.cold_start_s == ours.cold_start_s}
    chosen = {baseline.name: _cheapest(baseline.name, same, wanted) for baseline in BASELINES}
    order = sorted(chosen, key=lambda name: _rank(scores[chosen[name]], wanted))
    return replace(
        tuning,
        settings={
            **tuning.settings,
            key: {name: cell.setting or 0 for name, cell in chosen.items()},
        },
        best={**tuning.best, key: tuple(order)},
    )


def _cheapest(policy: str, scores: Mapping[Cell, Score], wanted: float) -> Cell:
    mine = [cell for cell in scores if cell.policy == policy]
    return min(mine, key=lambda cell: _rank(scores[cell], wanted))


def _rank(score: Score, wanted: float) -> tuple[bool, float, float]:
    """Those that attain enough first, by hours; then the others, by what they attain."""
    if score.attainment >= wanted:
        return False, score.replica_hours, 0.0
    return True, -score.attainment, score.replica_hours
