"""Every family and feature against transformers, from safetensors and from GGUF."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from paceline_engine.kernels.base import Kernels
from paceline_engine.kernels.choice import choose_kernels
from paceline_engine.kernels.cpu.library import CpuKernels
from paceline_engine.kernels.reference import ReferenceKernels
from paceline_engine.layers.kv_cache import allocate_kv_cache
from paceline_engine.models.llama import LlamaModel
from paceline_engine.runner.cpu import CpuRunner
from paceline_engine.runner.step_tensors import step_batch, token_ids
from paceline_engine.sampling import SamplingParams
from paceline_engine.weights import Checkpoint, open_checkpoint, read_model_config
from tests.support import tiny_families
from tests.support.steps import chunk, cpu_config, generate

TOLERANCE = 1e-3
PROMPT = torch.randint(2, 97, (140,), generator=torch.Generator().manual_seed(3)).tolist()
# Ends of the chunks a prompt comes in, then token by token as decoding does.
CHUNKED = (37, 38, 64, 110, *range(111, 141))
THETA = {"rope_theta": 500.0}


@dataclass(frozen=True)
class Case:
    """A family and what is special of one of its models."""

    model_type: str
    changes: dict[str, Any] = field(default_factory=dict)
    has_gguf: bool = True


def rope(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, **THETA, **parameters}}


YARN = rope("yarn", factor=4.0, original_max_position_embeddings=40)
LLAMA3 = rope(
    "llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
WINDOWS = {"use_sliding_window": True, "sliding_window": 21}
CASES = {
    "llama": Case("llama", rope("default")),
    "llama, one KV head": Case("llama", {"num_key_value_heads": 1}),
    "llama, heads wider than the stream": Case("llama", {"head_dim": 24}),
    "llama, biases of attention": Case("llama", {"attention_bias": True}),
    "llama, all biases": Case("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama, linear": Case("llama", rope("linear", factor=3.0)),
    "llama, dynamic": Case("llama", rope("dynamic", factor=2.0)),
    "llama, yarn": Case("llama", YARN),
    "llama, yarn in full": Case(
        "llama",
        rope(
            "yarn",
            factor=4.0,
            original_max_position_embeddings=40,
            beta_fast=16.0,
            beta_slow=2.0,
            mscale=0.7,
            mscale_all_dim=0.3,
            truncate=False,
        ),
        has_gguf=False,
    ),
    "llama, yarn of a given strength": Case(
        "llama",
        rope("yarn", factor=4.0, original_max_position_embeddings=40, attention_factor=1.3),
        has_gguf=False,
    ),
    "llama, llama3": Case("llama", LLAMA3 | {"tie_word_embeddings": True}),
    "llama, longrope": Case(
        "llama",
        rope(
            "longrope",
            short_factor=[1.0, 1.1, 1.3, 2.0],
            long_factor=[1.0, 2.0, 3.0, 4.0],
            factor=2.0,
            original_max_position_embeddings=150,
        ),
        has_gguf=False,
    ),
    "smollm2": Case(
        "llama",
        {
            "tie_word_embeddings": True,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "hidden_size": 72,
        },
    ),
    "mistral, no window": Case("mistral", {"sliding_window": None}),
    "mistral, window of a few": Case("mistral", {"sliding_window": 5}),
    "mistral, window past a panel": Case("mistral", {"sliding_window": 70, "head_dim": 16}),
    "mistral, window beyond the context": Case("mistral", {"sliding_window": 4096}),
    "qwen2": Case("qwen2"),
    "qwen2, tied": Case("qwen2", {"tie_word_embeddings": True, **rope("default")}),
    "qwen2, yarn": Case("qwen2", YARN),
    "qwen2, windows in the upper layers": Case(
        "qwen2", WINDOWS | {"max_window_layers": 1}, has_gguf=False
    ),
    "qwen3": Case("qwen3", {"head_dim": 16}),
    "qwen3, biases and tied": Case(
        "qwen3", {"head_dim": 16, "attention_bias": True, "tie_word_embeddings": True}
    ),
    "qwen3, yarn": Case("qwen3", YARN | {"head_dim": 16}),
    "qwen3, windows by layer": Case(
        "qwen3",
        WINDOWS
        | {
            "head_dim": 16,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        },
        has_gguf=False,
    ),
}


@dataclass(frozen=True)
class Made:
    """A model on disk and as transformers computes it."""

    directory: Path
    theirs: PreTrainedModel
    logits: torch.Tensor


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Makes each model once."""

    @functools.cache
    def make(name: str) -> Made:
        case, directory = CASES[name], tmp_path_factory.mktemp("family") / "model"
        theirs = tiny_families.make(directory, case.model_type, case.changes)
        return Made(directory, theirs, their_logits(theirs, PROMPT))

    return make


@pytest.fixture(params=CASES)
def made(request: pytest.FixtureRequest, models: Callable[[str], Made]) -> Made:
    return models(request.param)


@torch.inference_mode()
def their_logits(model: PreTrainedModel, ids: Sequence[int]) -> torch.Tensor:
    logits: torch.Tensor = model(torch.tensor([list(ids)]), use_cache=False).logits[0]
    return logits


@torch.inference_mode()
def our_logits(
    checkpoint: Checkpoint, kernels: Kernels, ids: Sequence[int], ends: Sequence[int]
) -> torch.Tensor:
    """Logits of every position, computed in chunks that end at `ends`."""
    model = LlamaModel(checkpoint, kernels, len(ids))
    blocks = range(-(-len(ids) // 16))
    cache = allocate_kv_cache(checkpoint.config, len(blocks), 16)
    rows = []
    for start, end in zip((0, *ends), ends, strict=False):
        chunks = [chunk(ids[start:end], start, blocks[: -(-end // 16)])]
        hidden = model.hidden_states(token_ids(chunks), step_batch(chunks, 16), cache)
        rows.append(model.logits(hidden))
    return torch.cat(rows)


def compiled(checkpoint: Checkpoint) -> Kernels:
    kernels = choose_kernels(checkpoint.config.head_dim, 16)
    assert isinstance(kernels, CpuKernels)
    return kernels


@pytest.mark.behaviour(
    "each family's logits are transformers' within 1e-3: whole prompts, chunked, decoded",
    report="a family loads and answers nonsense: biases dropped, RoPE scaling or window ignored",
)
@pytest.mark.parametrize("ends", [(len(PROMPT),), CHUNKED], ids=["whole", "chunked and decoded"])
def test_logits_equal_transformers(made: Made, ends: tuple[int, ...]) -> None:
    with open_checkpoint(made.directory) as checkpoint:
        actual = our_logits(checkpoint, compiled(checkpoint), PROMPT, ends)
    assert (actual - made.logits).abs().max() < TOLERANCE


def test_plain_torch_kernels_do_too(made: Made) -> None:
    with open_checkpoint(made.directory) as checkpoint:
        actual = our_logits(checkpoint, ReferenceKernels(), PROMPT, (50, len(PROMPT)))
    assert (actual - made.logits).abs().max() < TOLERANCE


@pytest.mark.behaviour(
    "the same weights give the same logits from GGUF and from safetensors, in every family",
    report="a GGUF conversion permutes or scales what the loader does not undo",
)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.has_gguf])
def test_gguf_gives_the_logits_of_safetensors(
    tmp_path: Path, models: Callable[[str], Made], name: str
) -> None:
    made = models(name)
    weights = tiny_families.weights_of(made.theirs)
    path = tiny_families.write_gguf(tmp_path / "model.gguf", made.directory, weights)
    with open_checkpoint(path) as checkpoint:
        actual = our_logits(checkpoint, compiled(checkpoint), PROMPT, (len(PROMPT),))
    assert (actual - made.logits).abs().max() < TOLERANCE


def test_ten_greedy_tokens_equal_transformers(made: Made) -> None:
    ids = list(PROMPT[:40])
    for _ in range(10):
        ids.append(int(their_logits(made.theirs, ids)[-1].argmax()))
    config = cpu_config(made.directory, vocab_size=97, budget=16, max_model_len=64)
    greedy = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=10)
    runner = CpuRunner(config)
    outputs, _ = generate(runner, config, [ids[:40]], [greedy])
    runner.close()
    assert outputs == [ids[40:]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_in_shards(tmp_path: Path, dtype: torch.dtype) -> None:
    theirs = tiny_families.make(tmp_path, "qwen2", {}, dtype=dtype, shard_bytes=30_000)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    with open_checkpoint(tmp_path) as checkpoint:
        actual = our_logits(checkpoint, compiled(checkpoint), PROMPT, (len(PROMPT),))
    assert (actual - their_logits(theirs, PROMPT)).abs().max() < TOLERANCE


@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_configurations_of_older_transformers_say_the_same(tmp_path: Path, key: str) -> None:
    """`rope_theta` on top and `rope_scaling` with `type`, as most published files have it."""
    tiny_families.make(tmp_path, "llama", YARN)
    expected = read_model_config(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = {key: scaling.pop("rope_type"), **scaling}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_model_config(tmp_path) == expected


def test_longrope_ends_where_its_frequencies_would_change(tmp_path: Path) -> None:
    tiny_families.make(tmp_path, "llama", CASES["llama, longrope"].changes)
    assert read_model_config(tmp_path).context_length == 150


def test_a_head_in_the_file_counts_even_if_tied(tmp_path: Path) -> None:
    """As transformers: what the file holds is not thrown away."""
    tiny_families.make(tmp_path, "llama", {})
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    assert not read_model_config(tmp_path).tied_embeddings


def test_parameters_are_counted_as_transformers_counts_them(made: Made) -> None:
    expected = sum(parameter.numel() for parameter in made.theirs.parameters())
    assert read_model_config(made.directory).num_parameters == expected
