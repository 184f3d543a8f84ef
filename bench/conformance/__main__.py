"""`python -m bench.conformance`: the autopilot against every baseline, on simulated fleets.

Runs the quick list, or all with `--full`; what was run before with the same code is read from
the cache, so an interrupted run goes on where it was. The whole takes several sittings: `--full`
keeps what it found in a table beside the results too, and goes on from there; `--known` reports
what there is so far. Writes a page and a JSON file, and ends with one line
`conformance: ok|short ...` that names each bar that was missed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.conformance import bars, matrix, report
from bench.conformance.cell import Cell, Score
from bench.conformance.cell_cache import CellCache
from bench.conformance.cell_ledger import CellLedger, LedgerError
from bench.conformance.evaluation import Evaluation
from bench.conformance.load_case import LoadCase
from bench.conformance.loads import loads, traces_word
from bench.conformance.runner import Runner
from bench.conformance.tune import Ask, completed, hurried, tuned
from bench.conformance.tuning import Tuning, TuningError, load_tunings, save_tunings
from paceline_operator.simulator.loads.trace import TraceError

RESULTS = Path(__file__).parents[1] / "results"
CACHE = Path(os.environ.get("PACELINE_CACHE", "~/.cache/paceline")).expanduser() / "conformance"

LEDGER = "conformance-cells.csv"
LOADS_PER_JOB = 2


def main() -> int:
    """Runs, reports, ends with the last line; 0 where every bar held."""
    args = _arguments()
    try:
        cases = _chosen(loads(args.traces, _most_requests(args)), args)
        tunings = load_tunings()
        ledger = CellLedger(args.results / LEDGER) if args.full or args.tune else None
    except (TraceError, TuningError, LedgerError, ChoiceError) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    try:
        with _progress() as progress:
            scores, lacking = _run(args, cases, tunings, CellCache(args.cache, ledger), progress)
        # Its line comes last: where nothing can be drawn over, a bar is shown when it ends.
        return _report(args, cases, scores, lacking, progress.console)
    finally:
        if ledger is not None:
            ledger.save()


class ChoiceError(ValueError):
    """What was asked for is no load, or none that is run."""


def _chosen(cases: Sequence[LoadCase], args: argparse.Namespace) -> list[LoadCase]:
    """The loads to run.

    Raises:
        ChoiceError: Nothing would be run, and nothing missed.
    """
    for name in args.only or ():
        known = next((case for case in cases if case.name == name), None)
        if known is None:
            there_are = ", ".join(case.name for case in cases)
            raise ChoiceError(f"--only {name}: no such load; there are {there_are}")
        if not (args.full or matrix.is_quick(known)):
            raise ChoiceError(f"--only {name}: not in the quick list; add --full")
    return [case for case in cases if not args.only or case.name in args.only]


def _run(
    args: argparse.Namespace,
    cases: Sequence[LoadCase],
    tunings: dict[str, Tuning],
    cell_cache: CellCache,
    progress: Progress,
) -> tuple[dict[Cell, Score], int]:
    """Scores, and how many cells have none."""
    task = progress.add_task("cells", total=None)

    def told(cell: Cell, score: Score) -> None:
        progress.console.print(_told(cell, score), highlight=False)
        progress.advance(task)

    for text in _notices(args, cases, tunings):
        progress.console.print(text, highlight=False)
    known, most = {case.name: case for case in cases}, _most_requests(args)
    with Runner(known, args.traces, cell_cache, args.jobs, told, most) as runner:
        tunings = _with_tunings(args, cases, tunings, runner)
        choose = matrix.full if args.full else matrix.quick
        cells = choose([case for case in cases if case.name in tunings], tunings)
        progress.update(task, total=len(cells), completed=0)
        scores = (runner.known if args.known else runner.scores)(cells, tunings)
    return scores, len(set(cells)) - len(scores)


def _with_tunings(
    args: argparse.Namespace,
    cases: Sequence[LoadCase],
    tunings: dict[str, Tuning],
    runner: Runner,
) -> dict[str, Tuning]:
    """The known, and new ones where asked or where a load lacks some; only whole ones are kept.

    Several loads at once: much of one load's search is one cell after another.
    """
    wanted = [case for case in cases if _to_tune(args, case, tunings)]
    is_kept = args.full or args.tune
    with ThreadPoolExecutor(LOADS_PER_JOB * args.jobs) as threads:
        searches = {
            threads.submit(_search(args, case, tunings), case, runner.scores): case
            for case in wanted
        }
        try:
            for done in as_completed(searches):
                tunings[searches[done].name] = done.result()
                if is_kept:
                    save_tunings(tunings)
        except BaseException:
            runner.cancel()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return tunings


def _most_requests(args: argparse.Namespace) -> int | None:
    return None if args.full or args.tune else matrix.MOST_QUICK_REQUESTS


def _notices(
    args: argparse.Namespace, cases: Sequence[LoadCase], tunings: Mapping[str, Tuning]
) -> list[str]:
    """What a reader has to know of loads before they are run."""
    cut = [
        f"{case.name}: the first {case.duration_s:,.0f} s of "
        f"{case.duration_s + case.left_out_s:,.0f} are played; --full plays all"
        for case in cases
        if case.left_out_s
    ]
    new = [case.name for case in cases if _to_tune(args, case, tunings)]
    if new:
        cut.append(f"settings are looked for first, by 50 to 190 cells each: {', '.join(new)}")
    return cut


def _to_tune(args: argparse.Namespace, case: LoadCase, tunings: Mapping[str, Tuning]) -> bool:
    if args.known:
        return False
    if args.tune or case.name not in tunings:
        return args.full or matrix.is_quick(case)
    return bool(args.full and tunings[case.name].lacking(matrix.COLD_STARTS_S))


def _search(
    args: argparse.Namespace, case: LoadCase, tunings: Mapping[str, Tuning]
) -> Callable[[LoadCase, Ask], Tuning]:
    """Of a load that is to be tuned: all of it, or in a full run what it lacks."""
    if args.full and not args.tune and case.name in tunings:
        return partial(completed, tunings[case.name])
    return tuned if args.full or args.tune else hurried


def _report(
    args: argparse.Namespace,
    cases: Sequence[LoadCase],
    scores: Mapping[Cell, Score],
    lacking: int,
    console: Console,
) -> int:
    if not scores:
        print("conformance: --known: none of these cells was run yet", file=sys.stderr)
        return 2
    changing = [case.name for case in cases if case.changes_regime]
    findings = bars.judge(scores, changing)
    line = bars.last_line(findings, traces_word(tuple(cases)), len(scores))
    if lacking:
        line = f"{line.replace(': ok ', ': short ', 1)} lacking={lacking}"
    page, data = report.write(
        Evaluation(
            made_at=datetime.now(UTC),
            command=shlex.join(["python", "-m", "bench.conformance", *sys.argv[1:]]),
            line=line,
            scores=scores,
            findings=findings,
        ),
        args.results,
    )
    for finding in findings:
        if not finding.held:
            reached = f"{finding.value:.3g}, asked {finding.limit:.3g}"
            console.print(f"  missed {finding.bar}: {finding.where}: {reached}", highlight=False)
    console.print(f"report: {page}\ndata: {data}", highlight=False)
    print(line)
    return 1 if lacking or bars.missed(findings) else 0


def _told(cell: Cell, score: Score) -> str:
    return (
        f"{cell.name:<48} {100 * score.attainment:6.2f} %  {score.replica_hours:7.2f} h  "
        f"peak {score.replicas_peak:2d}  {score.wall_s:5.1f} s"
    )


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(soft_wrap=True),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.conformance", description=__doc__)
    parser.add_argument("--full", action="store_true", help="every load, cold start and seed")
    parser.add_argument("--known", action="store_true", help="report what was run; run nothing")
    parser.add_argument("--tune", action="store_true", help="find anew what hindsight knows")
    parser.add_argument("--traces", type=Path, help="folder of traces (.csv, .csv.gz)")
    parser.add_argument("--only", action="append", metavar="LOAD", help="this load; repeatable")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
