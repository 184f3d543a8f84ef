from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.config import Device, StepTimeLaw
from paceline_engine.planning import StartError, cpus_within, parse_law, plan, served_name
from paceline_engine.runner.profiles import PROFILES
from paceline_engine.scheduler.limits import LiveLimits
from paceline_engine.server.admin_wire import Knobs, TunablesRequest
from paceline_engine.server.options import parse
from paceline_engine.server.tunables import Tunables
from paceline_engine.tokenizer import load_tokenizer
from paceline_engine.tokenizer.byte_vocabulary import VOCAB_SIZE
from paceline_engine.weights import read_model_config
from tests.support import tiny_llama

TOKENIZER = load_tokenizer(None)


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
    config = plan(parse(["serve", "--device=simulated", *flags]), load_tokenizer(None), start)
    assert (config.initial_batched_tokens, config.initial_running_seqs) == initial


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_simulated_sizes_come_from_the_profile(profile: str | None) -> None:
    flags = [f"--profile={profile}"] if profile else []
    config = plan(parse(["serve", "--device=simulated", *flags]), load_tokenizer(None), None)
    known = PROFILES[profile or "llama-3-8b-a100"]
    assert config.device is Device.SIMULATED
    assert config.step_time_law == known.law
    assert config.num_kv_blocks == known.kv_capacity_tokens // 16
    assert config.vocab_size == VOCAB_SIZE


def test_simulated_kv_memory() -> None:
    flags = ["--device=simulated", "--kv-cache-memory=1Gi", "--max-model-len=4096"]
    config = plan(parse(["serve", *flags]), load_tokenizer(None), None)
    assert config.kv_capacity_tokens == 8192


def test_law() -> None:
    assert parse_law("base_ms=1.5,per_token_ms=0.1,floor_ms=3") == StepTimeLaw(
        base_ms=1.5, per_token_ms=0.1, floor_ms=3
    )


@pytest.mark.parametrize("text", ["", "base_ms", "base_ms=1,per_token_ms=nan", "x=1"])
def test_no_law(text: str) -> None:
    with pytest.raises(StartError, match="--step-coefficients"):
        parse_law(text)


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


V1 = "cpu,cpuacct/cpu.cfs"


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "400000 100000"}, 4),
        ({"cpu.max": "399999 100000"}, 3),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"cpu.max": ""}, 8),
        ({"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        ({f"{V1}_quota_us": "300000", f"{V1}_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "100000"}, 8),
    ],
)
def test_cpus_are_cut_to_the_quota(tmp_path: Path, files: dict[str, str], cpus: int) -> None:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{content}\n")
    assert cpus_within(8, tmp_path) == cpus


@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize(("tokens", "fits"), [(512, True), (511, False), (1, False)])
def test_the_kv_cache_holds_one_longest_request(
    tmp_path: Path, device: str, tokens: int, fits: bool
) -> None:
    model = tiny_llama.write(tmp_path / "model", {"vocab_size": VOCAB_SIZE})
    memory = tokens * read_model_config(model).kv_bytes_per_token
    flags = [f"--model={model}", f"--device={device}", f"--kv-cache-memory={memory}"]
    if fits:
        assert plan(parse(["serve", *flags]), TOKENIZER, None).kv_capacity_tokens == 512
        return
    with pytest.raises(StartError, match="too little memory: the KV cache holds"):
        plan(parse(["serve", *flags]), TOKENIZER, None)


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path, device: str) -> None:
    model = tiny_llama.write(tmp_path / "model")
    options = parse(["serve", f"--model={model}", f"--device={device}"])
    with pytest.raises(StartError, match=f"{VOCAB_SIZE} tokens.*199 rows") as caught:
        plan(options, load_tokenizer(None), None)
    assert str(model) in str(caught.value)


def test_only_what_the_tokenizer_knows_is_sampled(tmp_path: Path) -> None:
    model = tiny_llama.write(tmp_path / "model", {"vocab_size": VOCAB_SIZE + 56})
    config = plan(parse(["serve", f"--model={model}"]), load_tokenizer(None), None)
    assert config.vocab_size == VOCAB_SIZE


@given(budget=st.integers(16, 3000), seqs=st.integers(1, 600))
def test_what_is_reported_as_ceiling_can_be_reached(budget: int, seqs: int) -> None:
    flags = [f"--max-num-batched-tokens={budget}", f"--max-num-seqs={seqs}"]
    config = plan(parse(["serve", "--device=simulated", *flags]), TOKENIZER, None)
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
