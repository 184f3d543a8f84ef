"""`python -m bench.flags`: what each flag of the engine does, measured.

Each case has two settings of one flag and one load. In each round both are started in turn
and measured; the order alternates. Writes `bench/results/flags-<time>.json` and `.md` and
puts the table between the marks of docs/engine.md (`--no-docs` leaves it alone). Ends with one
line `bench-flags: ok|void ...`: void where other processes used more than a tenth of the
machine. About 25 minutes on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.clients import run_groups
from bench.contender import Contender, ContenderError, serving
from bench.flag_cases import CASES, REAL, SIMULATED, Case, Outcomes
from bench.flags_page import LARGEST_OTHERS, Measured, inserted, section
from bench.machine import CpuTimes, facts, usable_cores

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "engine.md"
NAME = "m"


def server(case: Case, arguments: tuple[str, ...]) -> Contender:
    """An engine with the arguments of one side; the last of a repeated flag holds."""

    def command(model: Path, ports: list[int], threads: int) -> list[str]:
        device = (f"--model={model}", *REAL) if case.real else SIMULATED
        names = ("--port", "--health-port", "--admin-port")
        return [
            str(Path(sys.executable).parent / "paceline-engine"),
            "serve",
            f"--served-name={NAME}",
            "--host=127.0.0.1",
            f"--threads={threads}",
            *(f"{name}={port}" for name, port in zip(names, ports, strict=True)),
            *device,
            *case.common,
            *arguments,
        ]

    return Contender(
        name=" ".join(arguments), command=command, ready_port=1, ready_path="/readyz", body={}
    )


def run_side(
    case: Case, arguments: tuple[str, ...], args: argparse.Namespace, seed: int
) -> tuple[Outcomes, float]:
    """Starts one side, warms it up, measures it.

    Returns:
        Outcomes by group, and the share of the machine that others used.
    """
    groups = [group.scaled(args.scale) for group in case.groups]
    warm_up = [group.scaled(0) for group in case.groups[:1]]
    with serving(server(case, arguments), args.model, args.log, args.threads) as url:
        asyncio.run(run_groups(url, NAME, warm_up, seed=-1))
        before = CpuTimes.now()
        outcomes = asyncio.run(run_groups(url, NAME, groups, seed))
        others = CpuTimes.now().others_since(before)
    return {group.name: seen for group, seen in zip(groups, outcomes, strict=True)}, others


def run_case(case: Case, args: argparse.Namespace) -> Measured:
    """All rounds of one case."""
    sides = (case.before, case.after)
    values: dict[str, tuple[list[float], list[float]]] = {f.name: ([], []) for f in case.figures}
    disturbance = 0.0
    for turn in range(args.rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            seen, others = run_side(case, sides[side], args, seed=turn)
            disturbance = max(disturbance, others)
            for figure in case.figures:
                values[figure.name][side].append(round(figure.of(seen), 4))
    return Measured(
        name=case.name,
        flag=case.flag,
        before=" ".join(case.before),
        after=" ".join(case.after),
        load=case.load,
        device="cpu" if case.real else "simulated",
        figures=values,
        others=round(disturbance, 4),
    )


def run(args: argparse.Namespace) -> str:
    """All cases; writes the results, returns the closing line."""
    measured: list[Measured] = []
    for case in CASES:
        if not args.only or case.name in args.only:
            measured.append(run_case(case, args))
            print(f"{case.name}: {measured[-1].figures}", flush=True)
    now = datetime.now(UTC)
    content: dict[str, Any] = {
        "time": now.isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "bench.flags", *sys.argv[1:]]),
        "facts": facts(args.threads) | {"model": args.model.name},
        "rounds": args.rounds,
        "cases": [asdict(each) for each in measured],
    }
    data = save(args.results, now, content)
    if args.docs:
        where = os.path.relpath(data, PAGE.parent)
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(inserted(page, section(content, where)), encoding="utf-8")
    others = max(each.others for each in measured)
    word = "void" if others > LARGEST_OTHERS else "ok"
    return f"bench-flags: {word} cases={len(measured)} others={others:.2f}"


def save(folder: Path, now: datetime, content: dict[str, Any]) -> Path:
    """Writes both forms of a result under its time; never over another one.

    Returns:
        The JSON file.

    Raises:
        FileExistsError: There is one of that second.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"flags-{now:%Y-%m-%d-%H%M%S}.json"
    with data.open("x", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=1) + "\n")
    facts_of = "\n".join(f"- {name}: {value}" for name, value in content["facts"].items())
    text = f"# Flags of the engine\n\n{section(content, data.name)}\n\n{facts_of}\n"
    data.with_suffix(".md").write_text(text, encoding="utf-8")
    return data


def _arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("PACELINE_CACHE") or Path.home() / ".cache" / "paceline")
    default = cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    parser = argparse.ArgumentParser(prog="python -m bench.flags", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="times the requests of each load")
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument(
        "--model", type=Path, default=Path(os.environ.get("PACELINE_MODEL") or default)
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--log", type=Path, default=cache / "logs" / "bench-flags.log")
    args = parser.parse_args()
    args.log.parent.mkdir(parents=True, exist_ok=True)
    return args


def main() -> int:
    """Entry point; returns the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or servers would outlive it
    try:
        line = run(_arguments())
    except (ContenderError, OSError) as error:
        print(f"bench-flags: failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench-flags: interrupted", file=sys.stderr)
        return 130
    print(line)
    return 0 if line.startswith("bench-flags: ok") else 1


if __name__ == "__main__":
    sys.exit(main())
