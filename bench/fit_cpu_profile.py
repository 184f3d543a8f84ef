"""The CPU engine's step-time law, measured: the source of the simulator's CPU profile.

    PYTHONPATH=operator/src .venv-engine/bin/python -m bench.fit_cpu_profile

starts the engine, drives five different loads for 12 s each, reads the moments of its steps from
`/metrics`, fits the law, and writes `bench/results/cpu-profile-<time>.json`. Ends with one line
`cpu-profile: ok|void ...`: void where other processes used more than a tenth of the machine.
About 90 s on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bench.clients import Group, run_groups
from bench.contender import PACELINE, ContenderError, serving
from bench.machine import CpuTimes, facts, usable_cores
from paceline_engine.server import metric_names as names
from paceline_operator.autopilot.vocabulary.window import TERMS, Moments, StepClass
from paceline_operator.simulator.law_fit import LawFit, TooFewStepsError, fit_law

RESULTS = Path(__file__).parent / "results"
LARGEST_OTHERS = 0.10
PHASE_S = 12.0
WARM_UP = Group(name="warm-up", clients=4, requests=2, input_tokens=64, output_tokens=8)


def _group(name: str, clients: int, input_tokens: int, output_tokens: int) -> Group:
    return Group(
        name=name,
        clients=clients,
        requests=60,  # more than a phase has time for
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


# Rows, resident KV, prompt tokens and their context each vary where the others do not.
PHASES: tuple[tuple[Group, ...], ...] = (
    (_group("alone", 1, 64, 200),),
    (_group("crowd", 24, 48, 60),),
    (_group("long contexts", 3, 1400, 80),),
    (_group("chat", 8, 256, 24),),
    (_group("short", 12, 128, 24), _group("long prompts", 2, 1500, 8)),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run.

    Attributes:
        steps: Moments of the engine's steps.
        kv_capacity_tokens: Tokens its KV cache holds.
        others: Share of the machine that other processes used.
    """

    steps: dict[StepClass, Moments]
    kv_capacity_tokens: int
    others: float


def measure(args: argparse.Namespace) -> Measured:
    """Starts the engine and drives the loads."""
    ports: list[int] = []

    def command(model: Path, free: list[int], threads: int) -> list[str]:
        ports.extend(free)
        return PACELINE.command(model, free, threads)

    contender = replace(PACELINE, command=command)
    with serving(contender, args.model, args.log, args.threads) as url:
        asyncio.run(run_groups(url, str(args.model), [WARM_UP], seed=0))
        before = CpuTimes.now()
        for seed, groups in enumerate(PHASES, 1):
            asyncio.run(drive(url, str(args.model), groups, seed, args.seconds))
        others = CpuTimes.now().others_since(before)
        answer = httpx.get(f"http://127.0.0.1:{ports[1]}/metrics", timeout=10)
    return read(answer.raise_for_status().text, others)


def read(page: str, others: float) -> Measured:
    """Takes what is needed of the engine's metrics."""
    terms: dict[StepClass, dict[str, float]] = {}
    kv_capacity_tokens = 0
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = sample.labels
            if sample.name == names.STEP_MOMENTS.full_name:
                terms.setdefault(StepClass(labels["class"]), {})[labels["term"]] = sample.value
            elif sample.name == names.CACHE_CONFIG.full_name:
                kv_capacity_tokens = int(labels["block_size"]) * int(labels["num_gpu_blocks"])
    steps = {kind: Moments(tuple(found[term] for term in TERMS)) for kind, found in terms.items()}
    return Measured(steps, kv_capacity_tokens, others)


async def drive(url: str, model: str, groups: Sequence[Group], seed: int, seconds: float) -> None:
    """Runs the groups for so long; what is under way then is given up."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(run_groups(url, model, groups, seed), seconds)


def content(measured: Measured, found: LawFit, args: argparse.Namespace) -> dict[str, Any]:
    """What the result file says."""
    return {
        "command": shlex.join(["python", "-m", "bench.fit_cpu_profile", *sys.argv[1:]]),
        "facts": facts(args.threads) | {"model": args.model.name},
        "phases": [[asdict(group) for group in groups] for groups in PHASES],
        "seconds_a_phase": args.seconds,
        "others": round(measured.others, 4),
        "law": asdict(found.law),
        "decode_error": found.decode_error,
        "prefill_error": found.prefill_error,
        "kv_capacity_tokens": measured.kv_capacity_tokens,
        "moments": {
            kind.value: dict(zip(TERMS, moments.sums, strict=True))
            for kind, moments in measured.steps.items()
        },
    }


def run(args: argparse.Namespace) -> str:
    """Measures, fits, writes; returns the closing line."""
    measured = measure(args)
    found = fit_law(measured.steps)
    now = datetime.now(UTC)
    args.results.mkdir(parents=True, exist_ok=True)
    path = args.results / f"cpu-profile-{now:%Y-%m-%d-%H%M%S}.json"
    known = {"time": now.isoformat(timespec="seconds")} | content(measured, found, args)
    with path.open("x", encoding="utf-8") as file:
        file.write(json.dumps(known, indent=1) + "\n")
    print(f"{path.name}: {found.law}")
    word = "void" if measured.others > LARGEST_OTHERS else "ok"
    return (
        f"cpu-profile: {word} decode_error={found.decode_error:.3f} "
        f"prefill_error={found.prefill_error:.3f} others={measured.others:.2f}"
    )


def _arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("PACELINE_CACHE") or Path.home() / ".cache" / "paceline")
    default = cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    parser = argparse.ArgumentParser(prog="python -m bench.fit_cpu_profile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=PHASE_S, help="of each load")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument(
        "--model", type=Path, default=Path(os.environ.get("PACELINE_MODEL") or default)
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--log", type=Path, default=cache / "logs" / "cpu-profile.log")
    args = parser.parse_args()
    args.log.parent.mkdir(parents=True, exist_ok=True)
    return args


def main() -> int:
    """Entry point; returns the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the engine would outlive it
    try:
        line = run(_arguments())
    except (ContenderError, TooFewStepsError, httpx.HTTPError, OSError) as error:
        print(f"cpu-profile: failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cpu-profile: interrupted", file=sys.stderr)
        return 130
    print(line)
    return 0 if line.startswith("cpu-profile: ok") else 1


if __name__ == "__main__":
    sys.exit(main())
