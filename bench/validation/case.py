"""What is served and simulated alike: an engine, and a load for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from bench.validation.measures import Limits, Targets
from e2e.load.record import Record
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.profiles import Profile
from paceline_operator.simulator.request import Request

BLOCK_SIZE = 16
MODEL_LEN = 4096
ON_DEVICE = Limits(points=5.0, p50=0.10, p95=0.20)
"""Of the simulated device: it has no noise of its own."""
ON_CPU = Limits(attainment=0.30, p50=0.30, p95=0.30)
"""Of a real engine: shares of what was served, or as far as its own repeats lie apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One comparison.

    Attributes:
        name: What figures call it.
        profile: Step-time law of the simulated device, which is the engine's as well; empty
            for a real engine, whose law is measured first.
        is_simulated_device: Whether the engine only waits for as long as the law says.
        budget: Tokens of a step.
        seqs: Running sequences at most.
        mix: Kinds of request, in the load generator's words.
        plan: The rates over time, in its words.
        targets: Of attainment; close to the 90th percentiles, where it says most. On a real
            engine below them, so that an attainment can lie too far off either way.
        limits: How far the simulator may lie.
        repeats: How often the load is served.
    """

    name: str
    profile: str
    is_simulated_device: bool
    budget: int
    seqs: int
    mix: str
    plan: Sequence[str]
    targets: Targets
    limits: Limits = ON_DEVICE
    repeats: int = 1

    def engine_flags(self, model: Path | None) -> list[str]:
        """Flags of `paceline-engine serve` beside name and ports."""
        device = (
            ["--device", "simulated", "--profile", self.profile]
            if model is None
            else ["--device", "cpu", "--model", str(model)]
        )
        sizes = ("--max-num-batched-tokens", self.budget, "--max-num-seqs", self.seqs)
        length = MODEL_LEN if self.is_simulated_device else MODEL_LEN // 2
        return [*device, *map(str, sizes), "--max-model-len", str(length)]

    def load_flags(self) -> list[str]:
        """Flags of `python -m e2e.load` beside where to."""
        vocabulary = "bytes" if self.is_simulated_device else "words"
        return [*self.plan, "--mix", self.mix, "--vocabulary", vocabulary, "--seed", "11"]

    def engine_config(self, profile: Profile) -> EngineConfig:
        """The same engine, simulated.

        Args:
            profile: Its step-time law.
        """
        return EngineConfig(
            law=profile.law,
            num_kv_blocks=profile.kv_capacity_tokens // BLOCK_SIZE,
            max_model_len=MODEL_LEN if self.is_simulated_device else MODEL_LEN // 2,
            max_num_batched_tokens=self.budget,
            max_num_seqs=self.seqs,
            initial_batched_tokens=self.budget,
            initial_running_seqs=self.seqs,
            block_size=BLOCK_SIZE,
            step_noise=profile.step_noise,
            generators=Random,
            noise_seed=1_000_003,
        )


def requests(records: Iterable[Record], started_s: float) -> list[Request]:
    """A load in the simulator's form: when each left, and its tokens as the server counted."""
    ordered = sorted(records, key=lambda record: record.sent_s)
    return [Request(r.sent_s - started_s, r.prompt_tokens, r.tokens) for r in ordered]


_CHATS = Case(
    name="8B on an A100, chats",
    profile="llama-3-8b-a100",
    is_simulated_device=True,
    budget=512,
    seqs=64,
    mix="chat:0.8:200-1200:30-90,long:0.2:1800-3000:20-40",
    plan=("--plan", "steady", "--rate", "5", "--duration", "100"),
    targets=Targets(ttft_ms=150.0, itl_ms=35.0),
)
_BURSTS = replace(
    _CHATS,
    name="8B on an A100, bursts",
    budget=1024,
    seqs=32,
    plan=(
        *("--plan", "burst", "--rate", "3", "--factor", "5"),
        *("--every", "25", "--burst", "5", "--duration", "100"),
    ),
    targets=Targets(ttft_ms=700.0, itl_ms=70.0),
)
CASES = (
    _CHATS,
    _BURSTS,
    Case(
        name="70B on four A100, long prompts",
        profile="llama-3-70b-a100-tp4",
        is_simulated_device=True,
        budget=512,
        seqs=16,
        mix="chat:0.7:700-1300:24-48,long:0.3:1800-2400:12-24",
        plan=("--plan", "steady", "--rate", "2", "--duration", "100"),
        targets=Targets(ttft_ms=1000.0, itl_ms=95.0),
    ),
    Case(
        name="SmolLM2 on our CPU engine",
        profile="",
        is_simulated_device=False,
        budget=128,
        seqs=32,
        mix="chat:0.8:24-96:24-64,long:0.2:200-400:16-32",
        plan=("--plan", "steady", "--rate", "1.2", "--duration", "80"),
        targets=Targets(ttft_ms=200.0, itl_ms=45.0),
        limits=ON_CPU,
        repeats=3,
    ),
)
