from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.config import Device, EngineConfig
from paceline_engine.planning import plan, served_name
from paceline_engine.runner.profiles import PROFILES
from paceline_engine.scheduler.limits import LiveLimits
from paceline_engine.server.admin_wire import Knobs, TunablesRequest
from paceline_engine.server.options import parse
from paceline_engine.server.tunables import Tunables
from paceline_engine.start_error import StartError
from paceline_engine.tokenizer import load_tokenizer
from paceline_engine.tokenizer.byte_vocabulary import VOCAB_SIZE
from tests.support import tiny_llama

TOKENIZER = load_tokenizer(None)


def decide(*flags: str, start: TunablesRequest | None = None) -> EngineConfig:
    return plan(parse(["serve", *flags]), TOKENIZER, start).config


@pytest.mark.parametrize(
    ("flags", "agreed", "initial"),
    [
        ([], None, (2048, 64)),
        (["--initial-batched-tokens=256", "--initial-running-seqs=8"], None, (256, 8)),
        (["--initial-batched-tokens=256"], (512, 16), (512, 16)),
        (["--max-num-batched-tokens=256", "--max-num-seqs=4"], (512, 16), (256, 4)),
        (["--max-num-batched-tokens=500", "--initial-batched-tokens=500"], None, (496, 64)),
        (["--max-num-batched-tokens=40", "--initial-running-seqs=60"], None, (32, 31)),
    ],
)
def test_start_values(
    flags: list[str], agreed: tuple[int, int] | None, initial: tuple[int, int]
) -> None:
    start = None
    if agreed:
        start = TunablesRequest(
            revision=3, max_num_batched_tokens=agreed[0], max_num_running_seqs=agreed[1]
        )
    config = decide("--device=simulated", *flags, start=start)
    assert (config.initial_batched_tokens, config.initial_running_seqs) == initial


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_simulated_sizes_come_from_the_profile(profile: str | None) -> None:
    flags = [f"--profile={profile}"] if profile else []
    config = decide("--device=simulated", *flags)
    known = PROFILES[profile or "llama-3-8b-a100"]
    assert config.device is Device.SIMULATED
    assert config.step_time_law == known.law
    assert config.num_kv_blocks == known.kv_capacity_tokens // 16
    assert config.vocab_size == VOCAB_SIZE


def test_simulated_kv_memory() -> None:
    flags = ["--device=simulated", "--kv-cache-memory=1Gi", "--max-model-len=4096"]
    config = decide(*flags)
    assert config.kv_capacity_tokens == 8192


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ([], "simulated"),
        (["--model=/models/Tiny.Q4_1.gguf"], "Tiny.Q4_1"),
        (["--model=/models/tiny/"], "tiny"),
        (["--model=/models/tiny", "--served-name=chat"], "chat"),
    ],
)
def test_served_name(flags: list[str], name: str) -> None:
    assert served_name(parse(["serve", *flags])) == name


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path, device: str) -> None:
    model = tiny_llama.write(tmp_path / "model")
    with pytest.raises(StartError, match=f"{VOCAB_SIZE} tokens.*199 rows") as caught:
        decide(f"--model={model}", f"--device={device}")
    assert str(model) in str(caught.value)


def test_only_what_the_tokenizer_knows_is_sampled(tmp_path: Path) -> None:
    model = tiny_llama.write(tmp_path / "model", {"vocab_size": VOCAB_SIZE + 56})
    config = decide(f"--model={model}")
    assert config.vocab_size == VOCAB_SIZE


@given(budget=st.integers(16, 3000), seqs=st.integers(1, 600))
def test_what_is_reported_as_ceiling_can_be_reached(budget: int, seqs: int) -> None:
    flags = [f"--max-num-batched-tokens={budget}", f"--max-num-seqs={seqs}"]
    config = decide("--device=simulated", *flags)
    limits = LiveLimits(config)
    limits.apply(max_num_batched_tokens=2**31, max_num_running_seqs=2**31)
    reached = Knobs(
        max_num_batched_tokens=limits.max_num_batched_tokens,
        max_num_running_seqs=limits.max_num_running_seqs,
    )
    report = Tunables(config).report(reached)
    assert report.ceiling == reached
    assert report.floor.max_num_batched_tokens <= report.ceiling.max_num_batched_tokens <= budget
    assert report.ceiling.max_num_running_seqs <= seqs


def test_scheduling_and_cache_flags_reach_the_engine() -> None:
    config = decide(
        "--device=simulated",
        "--prefix-caching=off",
        "--prefix-cache-retention-seconds=60",
        "--batch-weight=0.5",
        "--interactive-max-wait-seconds=3",
        "--batch-max-wait-seconds=30",
        "--tenant-weights=a=2,b=0.5",
        "--block-size=32",
    )
    assert (config.prefix_caching, config.cache_retention_s) == (False, 60)
    assert config.batch_weight == 0.5
    assert (config.interactive_max_wait_s, config.batch_max_wait_s) == (3, 30)
    assert config.tenant_weights == (("a", 2.0), ("b", 0.5))
    assert config.block_size == 32
