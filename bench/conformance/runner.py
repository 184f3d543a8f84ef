"""Runs cells on all cores, each once: what was run before with the same code is read."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.conformance.cell import Cell, Score
from bench.conformance.cell_cache import CellCache
from bench.conformance.code_digest import digest
from bench.conformance.contestants import OURS
from bench.conformance.load_case import LoadCase
from bench.conformance.loads import loads
from bench.conformance.run_cell import run_cell
from bench.conformance.trace_loads import RECIPES, trace_name
from bench.conformance.tuning import Tuning

Told = Callable[[Cell, Score], None]

_WORLD = (
    "bench.conformance.loads",
    "bench.conformance.run_cell",
    "paceline_operator.simulator.run",
)
_LAW = (
    "paceline_operator.simulator.autopilot_controller",
    "bench.conformance.policies.ablations",
    "bench.conformance.sizing",
    "paceline_operator.api.choice",
    "paceline_operator.api.v1alpha1",
    "paceline_operator.autopilot.vocabulary.decision",
    "paceline_operator.autopilot.vocabulary.memory",
    "paceline_operator.autopilot.vocabulary.phrases",
    "paceline_operator.autopilot.vocabulary.policy",
    "paceline_operator.autopilot.plant.workload",
    "paceline_operator.api.status",
)
"""What only the product's law reads, and names of things: no baseline's score follows from it."""


class Runner:
    """Cells to scores; several threads may ask at once, and share the processes.

    Args:
        cases: All loads, by name.
        traces: Their folder, for the processes that play them again.
        most_requests: Of traces, as the cases were made with.
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
        most_requests: int | None = None,
    ) -> None:
        self._cases = cases
        self._traces = traces
        self._most_requests = most_requests
        self._cache = cell_cache
        self._told = told
        # Threads ask: a forked child could inherit a lock that one of them holds.
        spawning = multiprocessing.get_context("spawn")
        # A cell makes hardly any cycles, and millions of objects that would be looked at for them.
        self._pool = ProcessPoolExecutor(jobs, mp_context=spawning, initializer=gc.disable)

    def __enter__(self) -> Self:
        """The runner itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the processes."""
        self.cancel()

    def cancel(self) -> None:
        """Gives up what has not begun, for whoever waits for it too."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def scores(self, cells: Iterable[Cell], tunings: Mapping[str, Tuning]) -> dict[Cell, Score]:
        """Of all cells; what is done stays done if this is interrupted."""
        wanted = list(dict.fromkeys(cells))
        found = self.known(wanted, tunings)
        return found | self._run([cell for cell in wanted if cell not in found], tunings)

    def known(self, cells: Iterable[Cell], tunings: Mapping[str, Tuning]) -> dict[Cell, Score]:
        """Of those that were run before; nothing is run."""
        found: dict[Cell, Score] = {}
        for cell in cells:
            known = self._cache.get(cell, self._evidence(cell, tunings[cell.load]))
            if known is not None:
                found[cell] = known
                self._told(cell, known)
        return found

    def _run(self, cells: list[Cell], tunings: Mapping[str, Tuning]) -> dict[Cell, Score]:
        found: dict[Cell, Score] = {}
        waiting: dict[Future[Score], Cell] = {
            self._pool.submit(
                _in_process, self._traces, self._most_requests, cell, tunings[cell.load]
            ): cell
            for cell in cells
        }
        for done in as_completed(waiting):
            cell, score = waiting[done], done.result()
            self._cache.put(cell, self._evidence(cell, tunings[cell.load]), score)
            found[cell] = score
            self._told(cell, score)
        return found

    def _evidence(self, cell: Cell, tuning: Tuning) -> str:
        """Digest of all that a cell follows from."""
        case = self._cases[cell.load]
        of_trace = "" if case.trace is None else _digest_of_file(case.trace)
        if case.left_out_s:
            of_trace += f" but for {case.left_out_s} s"
        known = asdict(tuning)
        used = {key: value for key, value in known.items() if key not in ("settings", "best")}
        # Read from a file it comes in the order of letters, found anew in that of numbers.
        used["headroom"] = dict(sorted(tuning.headroom.items(), key=lambda each: int(each[0])))
        code = _code(cell.policy, is_sized=_is_guessed(case))
        text = f"{code}\0{of_trace}\0{case.service}\0{sorted(used.items())}"
        return hashlib.sha256(text.encode()).hexdigest()


def _is_guessed(case: LoadCase) -> bool:
    """Whether the product's own model has said how many copies of a trace there are."""
    return case.trace is not None and trace_name(case.trace) not in RECIPES


def _code(policy: str, *, is_sized: bool = False) -> str:
    """Of the world, and of the law only where it is the product's, or has sized the load."""
    return digest(*_WORLD) if policy in OURS or is_sized else digest(*_WORLD, without=_LAW)


@cache
def _digest_of_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _cases(traces: Path | None, most_requests: int | None) -> dict[str, LoadCase]:
    return {case.name: case for case in loads(traces, most_requests)}


def _in_process(
    traces: Path | None, most_requests: int | None, cell: Cell, tuning: Tuning
) -> Score:
    score = run_cell(cell, _cases(traces, most_requests)[cell.load], tuning)
    gc.collect()
    return score
