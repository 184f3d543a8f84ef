"""Plain budget against per-step pacing on engines over HTTP, the same loads, taking turns.

    python -m bench.validation.pacing

with the operator's environment, beside the engine's. Each round serves a load with the plain
budget (the largest whose full step keeps 90 % of the ITL target by the step-time law) and with the
ceiling and that step time for a target; the order changes with every round. Writes each round
and the medians to `bench/results/`, and prints them as a table; about 20 minutes. It compares and
holds no bar.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import psutil

from bench.validation import measured_profile, served_engine
from bench.validation.measures import Targets
from e2e import interruption
from e2e.job import LoadLog
from e2e.load.record import Outcome, Record
from e2e.load.report import percentile
from e2e.setup.place import ENGINE_VENV, LOGS, MODEL_FILE
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.profiles import find_profile
from paceline_operator.simulator.scoring.yardstick import percentile_met

RESULTS = Path(__file__).parents[1] / "results"
ROUNDS = 3
KEPT = 0.9
"""Share of the ITL target that steps may take."""
PERCENTILE = 95
RUNG = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A load that both kinds of engine serve.

    Attributes:
        name: What figures call it.
        profile: Step-time law of the simulated device; empty for the CPU engine, whose law is
            measured first.
        is_simulated_device: Whether the engine only waits.
        ceiling: Largest budget.
        seqs: Running sequences at most.
        model_len: Longest prompt with its answer.
        rows: Decode rows that the plain budget's full step is reckoned with.
        kv_tokens: KV tokens of those rows.
        context: Tokens that a chunk has before it, on average.
        mix: Kinds of request, in the load generator's words.
        plan: Rates over time, in its words.
        targets: What is to be kept.
    """

    name: str
    profile: str
    is_simulated_device: bool
    ceiling: int
    seqs: int
    model_len: int
    rows: int
    kv_tokens: int
    context: int
    mix: str
    plan: Sequence[str]
    targets: Targets

    @property
    def kept_ms(self) -> float:
        """Step time that neither kind is to exceed."""
        return KEPT * self.targets.itl_ms

    def budget(self, law: StepLaw) -> int:
        """The plain one, by a step-time law."""
        return max(b for b in range(RUNG, self.ceiling + 1, RUNG) if self._fits(b, law))

    def _fits(self, budget: int, law: StepLaw) -> bool:
        chunk = budget - self.rows
        work = (self.rows, self.kv_tokens, chunk * (self.context + chunk))
        return law.step_ms(max(0, chunk), *work) <= self.kept_ms or budget <= RUNG

    def engine_flags(self, model: Path, tunables: Path) -> list[str]:
        """Flags of `paceline-engine serve` beside name and ports."""
        device = (
            ["--device", "simulated", "--profile", self.profile]
            if self.is_simulated_device
            else ["--device", "cpu", "--model", str(model)]
        )
        sizes = {
            "--max-num-batched-tokens": self.ceiling,
            "--max-num-seqs": self.seqs,
            "--max-model-len": self.model_len,
            "--tunables-dir": tunables,
        }
        return [*device, *(str(word) for pair in sizes.items() for word in pair)]

    def load_flags(self, seed: int) -> list[str]:
        """Flags of `python -m e2e.load` beside where to."""
        vocabulary = "bytes" if self.is_simulated_device else "words"
        return [*self.plan, "--mix", self.mix, "--vocabulary", vocabulary, "--seed", str(seed)]


MATCHES = (
    Match(
        name="8B on an A100, 6,000-token prompts",
        profile="llama-3-8b-a100",
        is_simulated_device=True,
        ceiling=2048,
        seqs=128,
        model_len=16384,
        rows=20,
        kv_tokens=130_000,
        context=3000,
        mix="long:1:5000-7000:300-700",
        plan=("--plan", "steady", "--rate", "0.95", "--duration", "100"),
        targets=Targets(ttft_ms=6000.0, itl_ms=50.0),
    ),
    Match(
        name="SmolLM2 on our CPU engine, chats and long prompts",
        profile="",
        is_simulated_device=False,
        ceiling=1024,
        seqs=32,
        model_len=2048,
        rows=6,
        kv_tokens=2000,
        context=200,
        mix="chats-and-long-prompts",
        plan=("--plan", "steady", "--rate", "1.3", "--duration", "80"),
        targets=Targets(ttft_ms=1500.0, itl_ms=250.0),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One load, served once; shares in percent of what was due.

    Attributes:
        match: Which load.
        seed: Of its arrivals.
        is_paced: Which kind of engine.
        budget: Its budget.
        requests: Sent.
        lost: Without a full answer.
        good: Both targets met.
        ttft: First tokens in time.
        itl: Gaps in time.
        ttft_p95_ms: 95th percentile of the time to the first token; None where nobody got one.
        host_cpu: Busy share of the machine meanwhile.
    """

    match: str
    seed: int
    is_paced: bool
    budget: int
    requests: int
    lost: int
    good: float
    ttft: float
    itl: float
    ttft_p95_ms: float | None
    host_cpu: float


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m bench.validation.pacing", description=__doc__)
    parser.add_argument("--only", default="", help="loads whose name holds this text")
    parser.add_argument("--model", type=Path, default=MODEL_FILE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    found: list[Round] = []
    try:
        with interruption.raised():
            for match in MATCHES:
                if args.only in match.name:
                    found.extend(rounds(match, args.model))
    except (served_engine.ServedEngineError, ValueError, OSError) as error:
        print(f"pacing: {error}")
        return 1
    except KeyboardInterrupt:
        print("pacing: interrupted; the engine is ended")
        return 130
    print(f"result: {write(args.results, found)}")
    print("\n".join(table(found)))
    return 0


def rounds(match: Match, model: Path) -> Iterator[Round]:
    """Both kinds in every round, the first one in turn."""
    profile = find_profile(match.profile) if match.profile else measured_profile.measure(model)
    plain = match.budget(profile.law)
    for number in range(ROUNDS):
        for is_paced in (False, True) if number % 2 == 0 else (True, False):
            budget = match.ceiling if is_paced else plain
            yield _served(match, model, 11 + number, is_paced=is_paced, budget=budget)


def _served(match: Match, model: Path, seed: int, *, is_paced: bool, budget: int) -> Round:
    wanted: dict[str, float] = {
        "revision": 1,
        "maxNumBatchedTokens": budget,
        "maxNumRunningSeqs": match.seqs,
    }
    if is_paced:
        wanted["stepTimeTargetMs"] = match.kept_ms
    log_file = LOGS / f"pacing-{os.getpid()}.log"
    program = ENGINE_VENV / "bin" / "paceline-engine"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "tunables.json").write_text(json.dumps(wanted))
        flags = match.engine_flags(model, place)
        with served_engine.serving(program, flags, log_file) as url:
            psutil.cpu_percent()
            log = served_engine.load(url, match.load_flags(seed))
            busy = psutil.cpu_percent() / 100
    found = _judged(match, seed, log, is_paced=is_paced, budget=budget, host_cpu=busy)
    print("\n".join(table([found])[2:]), flush=True)
    return found


def _judged(
    match: Match, seed: int, log: LoadLog, *, is_paced: bool, budget: int, host_cpu: float
) -> Round:
    records, targets = log.records, match.targets
    ttft_ms = sorted(r.ttft_ms for r in records if r.ttft_ms is not None)
    gaps = [gap for record in records for gap in record.gaps_ms]
    return Round(
        match=match.name,
        seed=seed,
        is_paced=is_paced,
        budget=budget,
        requests=len(records),
        lost=sum(record.outcome is not Outcome.OK for record in records),
        good=_percent(sum(is_good(record, targets) for record in records), len(records)),
        ttft=_percent(sum(each <= targets.ttft_ms for each in ttft_ms), len(records)),
        itl=_percent(sum(gap <= targets.itl_ms for gap in gaps), len(gaps)),
        ttft_p95_ms=percentile(ttft_ms, PERCENTILE),
        host_cpu=host_cpu,
    )


def is_good(record: Record, targets: Targets) -> bool:
    """Whether a request met both targets, its own gaps at the 95th percentile."""
    if record.outcome is not Outcome.OK or record.ttft_ms is None:
        return False
    late = sum(gap > targets.itl_ms for gap in record.gaps_ms)
    is_smooth = percentile_met(PERCENTILE, len(record.gaps_ms), late)
    return record.ttft_ms <= targets.ttft_ms and is_smooth


def _percent(count: int, of: int) -> float:
    return 100.0 * count / max(1, of)


def table(found: Iterable[Round]) -> list[str]:
    """Medians over rounds with least and most, as Markdown."""
    kinds: dict[tuple[str, bool], list[Round]] = {}
    for each in found:
        kinds.setdefault((each.match, each.is_paced), []).append(each)
    return [
        "| load | steps | good | first tokens in time | gaps in time | TTFT p95, ms |",
        "|---|---|---|---|---|---|",
        *(_row(name, kept) for (name, _), kept in sorted(kinds.items())),
    ]


def _row(name: str, kept: Sequence[Round]) -> str:
    kind = "pacing" if kept[0].is_paced else f"budget {kept[0].budget}"
    figures = (
        _spread([r.good for r in kept], 1),
        _spread([r.ttft for r in kept], 1),
        _spread([r.itl for r in kept], 1),
        _spread([r.ttft_p95_ms for r in kept if r.ttft_p95_ms is not None], 0),
    )
    return f"| {name} | {kind} | {' | '.join(figures)} |"


def _spread(values: Sequence[float], digits: int) -> str:
    if not values:
        return "none"
    middle = f"{median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def write(folder: Path, found: Sequence[Round]) -> Path:
    """Writes a result under its time; never over another one."""
    now = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"pacing-engines-{now:%Y-%m-%d-%H%M%S}.json"
    body = {
        "time": now.isoformat(timespec="seconds"),
        "command": "python -m bench.validation.pacing",
        "matches": [asdict(match) for match in MATCHES],
        "rounds": [asdict(each) for each in found],
        "table": table(found),
    }
    with path.open("x") as file:
        file.write(json.dumps(body, indent=1) + "\n")
    return path


if __name__ == "__main__":
    raise SystemExit(main())
