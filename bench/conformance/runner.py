"""Runs cells on all cores, each once: what was run before with the same code is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache
from pathlib import Path

from bench.conformance.cell import Cell, Score
from bench.conformance.cell_cache import CellCache
from bench.conformance.code_digest import digest
from bench.conformance.contestants import OURS
from bench.conformance.load_case import LoadCase
from bench.conformance.loads import loads
from bench.conformance.run_cell import run_cell
from bench.conformance.tuning import Tuning

Told = Callable[[Cell, Score], None]

_WORLD = ("bench.conformance.run_cell", "paceline_operator.simulator.run")
_LAW = (
    "paceline_operator.simulator.autopilot_controller",
    "bench.conformance.policies.ablations",
    "bench.conformance.sizing",
)


class Runner:
    """Cells to scores.

    Args:
        cases: All loads, by name.
        traces: Their folder, for the processes that play them again.
        cache: Scores that were found before.
        jobs: Processes.
        told: Hears of each cell that was run or found, as it comes.
    """

    def __init__(
        self,
        cases: Mapping[str, LoadCase],
        traces: Path | None,
        cell_cache: CellCache,
        jobs: int,
        told: Told,
    ) -> None:
        self._cases = cases
        self._traces = traces
        self._cache = cell_cache
        self._jobs = jobs
        self._told = told

    def scores(self, cells: Iterable[Cell], tunings: Mapping[str, Tuning]) -> dict[Cell, Score]:
        """Of all cells; what is done stays done if this is interrupted."""
        found: dict[Cell, Score] = {}
        missing: list[Cell] = []
        for cell in dict.fromkeys(cells):
            known = self._cache.get(cell, self._evidence(cell, tunings[cell.load]))
            if known is None:
                missing.append(cell)
            else:
                found[cell] = known
                self._told(cell, known)
        return found | self._run(missing, tunings)

    def _run(self, cells: list[Cell], tunings: Mapping[str, Tuning]) -> dict[Cell, Score]:
        found: dict[Cell, Score] = {}
        if not cells:
            return found
        with ProcessPoolExecutor(self._jobs) as pool:
            waiting: dict[Future[Score], Cell] = {
                pool.submit(_in_process, self._traces, cell, tunings[cell.load]): cell
                for cell in cells
            }
            try:
                for done in as_completed(waiting):
                    cell, score = waiting[done], done.result()
                    self._cache.put(cell, self._evidence(cell, tunings[cell.load]), score)
                    found[cell] = score
                    self._told(cell, score)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return found

    def _evidence(self, cell: Cell, tuning: Tuning) -> str:
        """Digest of all that a cell follows from."""
        case = self._cases[cell.load]
        of_trace = "" if case.trace is None else _digest_of_file(case.trace)
        known = asdict(tuning)
        used = {key: value for key, value in known.items() if key not in ("settings", "best")}
        text = f"{_code(cell.policy)}\0{of_trace}\0{case.service}\0{sorted(used.items())}"
        return hashlib.sha256(text.encode()).hexdigest()


def _code(policy: str) -> str:
    """Of the world, and of the law only where it is the product's."""
    return digest(*_WORLD) if policy in OURS else digest(*_WORLD, without=_LAW)


@cache
def _digest_of_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _cases(traces: Path | None) -> dict[str, LoadCase]:
    return {case.name: case for case in loads(traces)}


def _in_process(traces: Path | None, cell: Cell, tuning: Tuning) -> Score:
    return run_cell(cell, _cases(traces)[cell.load], tuning)
