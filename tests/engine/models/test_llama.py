"""The model against transformers: small odd shapes, then SmolLM2 from GGUF and safetensors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from paceline_engine.kernels.base import Kernels
from paceline_engine.kernels.choice import choose_kernels
from paceline_engine.kernels.cpu.library import CpuKernels
from paceline_engine.kernels.reference import ReferenceKernels
from paceline_engine.runner.cpu import CpuRunner
from paceline_engine.weights import Checkpoint, CorruptCheckpointError, open_checkpoint
from tests.support import tiny_llama
from tests.support.steps import GREEDY, all_logits, cpu_config, generate

TOLERANCE = 1e-3
PROMPTS = (
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a land where numbers 1 2 3 could speak,",
    "<|im_start|>user\nWhat is a black hole?<|im_end|>\n<|im_start|>assistant\n",
    "Water boils at 100 degrees Celsius. " * 6,
)
CONTINUED = (
    *PROMPTS,
    "<|im_start|>user\nWrite a haiku about rain.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nList three primes.<|im_end|>\n<|im_start|>assistant\n",
    '{"name": "Ada", "born": 1815, "city": "',
    "import numpy as np\n\ndef softmax(x):\n",
    "It was the best of times, it was the",
)


def compiled_kernels(head_dim: int) -> Kernels:
    """What a user gets; a silent fall back to the reference would test nothing."""
    kernels = choose_kernels(head_dim, 16)
    assert isinstance(kernels, CpuKernels)
    return kernels


def ids_of(gguf: Path, texts: tuple[str, ...]) -> list[list[int]]:
    from paceline_engine.tokenizer import load_tokenizer  # noqa: PLC0415  (only where texts are)

    tokenizer = load_tokenizer(str(gguf))
    return [list(tokenizer.encode(text)) for text in texts]


@torch.inference_mode()
def oracle_logits(model: PreTrainedModel, ids: list[int]) -> torch.Tensor:
    logits: torch.Tensor = model(torch.tensor([ids])).logits[0]
    return logits


SHAPES: dict[str, dict[str, Any]] = {
    "untied": {},
    "tied": {"tie_word_embeddings": True},
    "one KV head": {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 8},
    "full heads, other theta and eps": {
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "rope_theta": 1e6,
        "rms_norm_eps": 1e-3,
    },
}


@pytest.mark.parametrize("kernels", ["reference", "compiled"])
@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES.keys())
def test_small_shapes_equal_transformers(
    tmp_path: Path, changes: dict[str, Any], kernels: str
) -> None:
    path = tiny_llama.write(tmp_path, changes)
    prompts = [[1], [5, 9, 198], list(range(3, 90))]
    with open_checkpoint(path) as checkpoint:
        chosen = ReferenceKernels() if kernels == "reference" else compiled_kernels(16)
        actual = all_logits(checkpoint, chosen, prompts)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    for ids, logits in zip(prompts, actual, strict=True):
        torch.testing.assert_close(logits, oracle_logits(model, ids), rtol=1e-4, atol=1e-4)


def test_a_missing_tensor_is_one_line(tmp_path: Path) -> None:
    weights = tiny_llama.tensors(tiny_llama.SHAPE)
    del weights["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(CorruptCheckpointError, match=r"no tensor model\.layers\.1\.mlp\.up_proj"):
        open_checkpoint(tiny_llama.write(tmp_path, weights=weights))


@pytest.fixture(scope="module")
def exported(oracle: PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """transformers' own safetensors form of the weights it read from the GGUF file."""
    path = tmp_path_factory.mktemp("exported")
    config = oracle.config.to_dict()
    del config["quantization_config"]
    (path / "config.json").write_text(json.dumps(config))
    state = {name: value for name, value in oracle.state_dict().items() if name != "lm_head.weight"}
    save_file(state, path / "model.safetensors", {"format": "pt"})
    return path


@pytest.fixture(scope="module")
def gguf_logits(gguf: Path) -> list[torch.Tensor]:
    with open_checkpoint(gguf) as checkpoint:
        return smollm2_logits(checkpoint, gguf)


def smollm2_logits(checkpoint: Checkpoint, gguf: Path) -> list[torch.Tensor]:
    return all_logits(checkpoint, compiled_kernels(64), ids_of(gguf, PROMPTS))


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_smollm2_logits_equal_transformers(
    gguf: Path, oracle: PreTrainedModel, gguf_logits: list[torch.Tensor]
) -> None:
    for ids, logits in zip(ids_of(gguf, PROMPTS), gguf_logits, strict=True):
        assert (logits - oracle_logits(oracle, ids)).abs().max() < TOLERANCE


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_safetensors_give_the_same_bits_as_gguf(
    exported: Path, gguf: Path, gguf_logits: list[torch.Tensor]
) -> None:
    with open_checkpoint(exported) as checkpoint, open_checkpoint(gguf) as source:
        assert checkpoint.config.num_parameters == source.config.num_parameters
        for logits, expected in zip(smollm2_logits(checkpoint, gguf), gguf_logits, strict=True):
            torch.testing.assert_close(logits, expected, rtol=0, atol=0)


@pytest.fixture(scope="module")
def runner(gguf: Path) -> Iterator[CpuRunner]:
    compiled_kernels(64)  # the runner makes the same choice
    made = CpuRunner(cpu_config(gguf, vocab_size=49_152))
    yield made
    made.close()


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_greedy_continuations_equal_transformers(
    gguf: Path, oracle: PreTrainedModel, runner: CpuRunner
) -> None:
    """Each token is transformers' best given the same text, so by induction all 64 agree.

    Another token passes only where transformers' own two best logits lie within the tolerance.
    """
    prompts = ids_of(gguf, CONTINUED)
    length = {"max_tokens": 64, "temperature": 0.0, "ignore_eos": True}
    sampling = [type(GREEDY)(**length)] * len(prompts)
    outputs, _ = generate(runner, cpu_config(gguf, vocab_size=49_152), prompts, sampling)
    ties = 0
    for prompt, output in zip(prompts, outputs, strict=True):
        assert len(output) == 64
        logits = oracle_logits(oracle, prompt + output)[len(prompt) - 1 : -1]
        for row, token in zip(logits, output, strict=True):
            if int(row.argmax()) != token:
                assert row.max() - row[token] < TOLERANCE
                ties += 1
    assert ties <= 2
