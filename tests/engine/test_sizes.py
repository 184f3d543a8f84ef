"""Starts that memory allows or not: sizes chosen, refusals with the arithmetic."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline_engine import sizes
from paceline_engine.config import EngineConfig
from paceline_engine.memory import MIB, LimitSource, MemoryLimit
from paceline_engine.planning import Plan, plan
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import parse
from paceline_engine.start_error import StartError
from paceline_engine.tokenizer import load_tokenizer
from paceline_engine.tokenizer.byte_vocabulary import VOCAB_SIZE
from paceline_engine.weights import read_model_config
from tests.support import tiny_llama

TOKENIZER = load_tokenizer(None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_llama.write(tmp_path / "model", {"vocab_size": VOCAB_SIZE})


def decide(*flags: str) -> Plan:
    return plan(parse(["serve", *flags]), TOKENIZER, None)


def machine(monkeypatch: pytest.MonkeyPatch, usable_mib: int) -> None:
    limit = MemoryLimit(
        source=LimitSource.CGROUP_V2, total_bytes=1 << 40, available_bytes=usable_mib * MIB
    )
    monkeypatch.setattr(sizes, "nearest_limit", lambda: limit)
    monkeypatch.setattr(sizes, "resident_bytes", lambda: 0)


@pytest.mark.behaviour(
    "an engine whose KV cache cannot hold one longest request does not start: none waits for ever",
    report="vllm #39734, #35541: a request larger than the KV pool waited for ever",
)
@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize(("tokens", "fits"), [(512, True), (511, False), (1, False)])
def test_the_kv_cache_holds_one_longest_request(
    model: Path, device: str, tokens: int, fits: bool
) -> None:
    per_token = read_model_config(model).kv_bytes_per_token
    flags = [f"--model={model}", f"--device={device}", f"--kv-cache-memory={tokens * per_token}"]
    if fits:
        assert decide(*flags).config.kv_capacity_tokens == 512
        return
    with pytest.raises(StartError, match="too little memory: the KV cache holds") as caught:
        decide(*flags)
    assert f"raise --kv-cache-memory to {512 * per_token} " in str(caught.value)


def lowered(error: StartError) -> list[str]:
    """The flag that a refusal says to lower, with its value."""
    found = re.search(r"lower (--[a-z-]+) to (\d+)", str(error))
    assert found, str(error)
    assert found[1] in set(Flag)
    return [f"{found[1]}={found[2]}"]


@pytest.mark.behaviour(
    "too little memory is refused before loading, with the sum, and doing as it says helps",
    report="engines killed for memory under load, long after a start that looked well",
)
@pytest.mark.parametrize(
    ("flags", "usable_mib"),
    [
        (["--kv-cache-memory=800Mi"], 1400),
        (["--kv-cache-memory=1Mi", "--max-num-batched-tokens=65536"], 1050),
        (["--kv-cache-memory=1Mi", "--max-num-seqs=9000", "--max-num-batched-tokens=16384"], 1200),
        (["--max-queued-tokens=20000000"], 1000),
    ],
)
def test_a_refusal_names_what_to_lower_and_that_helps(
    monkeypatch: pytest.MonkeyPatch, model: Path, flags: list[str], usable_mib: int
) -> None:
    machine(monkeypatch, usable_mib)
    flags = [f"--model={model}", "--device=cpu", *flags]
    with pytest.raises(StartError) as caught:
        decide(*flags)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("too little memory: needed runtime ")
    assert f"usable {usable_mib} MiB, of which 5% stay free" in text
    decide(*flags, *lowered(caught.value))


def test_where_no_flag_helps_it_says_how_much_is_missing(
    monkeypatch: pytest.MonkeyPatch, model: Path
) -> None:
    machine(monkeypatch, 100)
    flags = [f"--model={model}", "--device=cpu"]
    with pytest.raises(StartError, match=r"free; give (\d+) MiB more$") as caught:
        decide(*flags)
    missing = int(str(caught.value).split()[-3])
    machine(monkeypatch, 100 + missing)
    decide(*flags)
    machine(monkeypatch, 100 + missing - 1)
    with pytest.raises(StartError):
        decide(*flags)


def test_a_simulated_engine_needs_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 60)
    with pytest.raises(StartError, match="too little memory: needed runtime"):
        decide("--device=simulated")
    machine(monkeypatch, 400)
    decided = decide("--device=simulated")
    assert decided.memory.plan.weight_bytes == decided.memory.plan.kv_bytes == 0
    assert decided.memory.plan.num_kv_blocks == decided.config.num_kv_blocks


def test_the_plan_is_of_the_configuration(model: Path) -> None:
    decided = decide(f"--model={model}", "--device=cpu", "--max-num-seqs=8")
    config: EngineConfig = decided.config
    shape = read_model_config(model)
    planned = decided.memory.plan
    assert planned.num_kv_blocks == config.num_kv_blocks
    assert planned.block_bytes == shape.kv_bytes_per_token * config.block_size
    assert planned.weight_bytes == shape.resident_weight_bytes
    assert planned.total_bytes <= decided.memory.usable_bytes
