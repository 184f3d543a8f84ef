"""Llama-shaped decoders: Llama, SmolLM2, Mistral, Qwen2, Qwen3.

One model for all: in what they differ is data, in `ModelConfig`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from paceline_engine.kernels.base import Kernels
from paceline_engine.kernels.operands import LayerCache, RotaryTable, StepBatch
from paceline_engine.layers.attention import Attention, HeadNorm
from paceline_engine.layers.feed_forward import FeedForward
from paceline_engine.layers.linear import Linear
from paceline_engine.layers.rotary import rotary_table
from paceline_engine.weights.checkpoint import Checkpoint
from paceline_engine.weights.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Block:
    """One pre-norm transformer block."""

    attention_norm: torch.Tensor
    attention: Attention
    feed_forward_norm: torch.Tensor
    feed_forward: FeedForward


class LlamaModel:
    """Weights of a Llama-shaped model in compute form.

    Args:
        checkpoint: Where tensors are read from, one at a time.
        kernels: Kernels in use.
        max_model_len: Longest sequence in tokens, for the rotary tables.

    Raises:
        CheckpointError: A tensor is absent or unusable.
    """

    def __init__(self, checkpoint: Checkpoint, kernels: Kernels, max_model_len: int) -> None:
        config = checkpoint.config
        self._kernels = kernels
        self._eps = config.rms_norm_eps
        self._embedding = _owned(checkpoint.tensor("model.embed_tokens.weight"))
        rotary = rotary_table(
            config.head_dim,
            config.rope_theta,
            max_model_len,
            config.rope_divisors,
            config.rope_amplitude,
        )
        self._blocks = [
            _load_block(checkpoint, layer, rotary, kernels) for layer in range(config.num_layers)
        ]
        self._norm = _owned(checkpoint.tensor("model.norm.weight"))
        self._head = Linear(
            self._embedding
            if config.tied_embeddings
            else _owned(checkpoint.tensor("lm_head.weight"))
        )

    def hidden_states(
        self, token_ids: torch.Tensor, batch: StepBatch, cache: Sequence[LayerCache]
    ) -> torch.Tensor:
        """Runs all blocks.

        Args:
            token_ids: [rows] int64.
            batch: Where each row stands.
            cache: KV tensors by layer; the rows' slots are written.

        Returns:
            [rows, hidden] before the final norm.
        """
        residual = self._embedding.index_select(0, token_ids)
        change = torch.zeros_like(residual)
        for block, layer_cache in zip(self._blocks, cache, strict=True):
            x = self._add_norm(change, residual, block.attention_norm)
            change = block.attention(x, batch, layer_cache)
            x = self._add_norm(change, residual, block.feed_forward_norm)
            change = block.feed_forward(x)
        return residual.add_(change)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] before the final norm -> [rows, vocabulary]."""
        return self._head(self._kernels.rms_norm(hidden, self._norm, self._eps))

    def _add_norm(
        self, change: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        return self._kernels.add_rms_norm(change, residual, weight, self._eps)


class _LayerReader:
    """Reads the parts of one block."""

    def __init__(self, checkpoint: Checkpoint, layer: int) -> None:
        self._checkpoint = checkpoint
        self._prefix = f"model.layers.{layer}"

    def array(self, part: str) -> NDArray[np.float32]:
        return self._checkpoint.tensor(f"{self._prefix}.{part}")

    def norm(self, part: str) -> torch.Tensor:
        return _owned(self.array(f"{part}.weight"))

    def linear(self, *parts: str, has_bias: bool) -> Linear:
        """One product of the stacked projections."""
        weights = [self.array(f"{part}.weight") for part in parts]
        biases = [self.array(f"{part}.bias") for part in parts] if has_bias else []
        return Linear.stacked(weights, biases)


def _load_block(checkpoint: Checkpoint, layer: int, rotary: RotaryTable, kernels: Kernels) -> Block:
    config, reader = checkpoint.config, _LayerReader(checkpoint, layer)
    attention = Attention(
        reader.linear(*(f"self_attn.{part}_proj" for part in "qkv"), has_bias=config.qkv_bias),
        reader.linear("self_attn.o_proj", has_bias=config.output_bias),
        rotary,
        kernels,
        head_norm=_head_norm(reader, config) if config.qk_norm else None,
        window=config.window(layer),
    )
    gate_up = reader.linear("mlp.gate_proj", "mlp.up_proj", has_bias=config.mlp_bias)
    down = reader.linear("mlp.down_proj", has_bias=config.mlp_bias)
    return Block(
        attention_norm=reader.norm("input_layernorm"),
        attention=attention,
        feed_forward_norm=reader.norm("post_attention_layernorm"),
        feed_forward=FeedForward(gate_up, down, kernels),
    )


def _head_norm(reader: _LayerReader, config: ModelConfig) -> HeadNorm:
    query, key = reader.norm("self_attn.q_norm"), reader.norm("self_attn.k_norm")
    weight = torch.cat((query.expand(config.num_heads, -1), key.expand(config.num_kv_heads, -1)))
    return HeadNorm(weight.contiguous(), config.rms_norm_eps)


def _owned(array: NDArray[np.float32]) -> torch.Tensor:
    """A tensor of its own: the array may be a read-only view of the file."""
    return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
