"""Shape of a Llama-like model, read from a checkpoint's metadata. Plain data, no torch."""

from __future__ import annotations

from dataclasses import dataclass

FP32_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What the model, the memory plan and the server need to know of a checkpoint.

    Attributes:
        architecture: Family name, a key of `FAMILIES`; `llama` covers Llama and SmolLM2.
        vocab_size: Rows of the embedding.
        hidden_size: Width of the residual stream.
        intermediate_size: Width of the feed-forward layer.
        num_layers: Transformer blocks.
        num_heads: Query heads.
        num_kv_heads: Key and value heads; divides `num_heads`.
        head_dim: Width of one head.
        context_length: Longest sequence that is computed as the model was trained, in tokens.
        rope_theta: Base of the rotary frequencies.
        rms_norm_eps: Epsilon of the norms.
        tied_embeddings: Whether the vocabulary head reuses the embedding.
        rope_divisors: Divisor of each rotary frequency; none means all are 1.
        rope_amplitude: Factor of the rotary cosines and sines.
        qkv_bias: Whether the query, key and value projections have biases.
        output_bias: Whether attention's output projection has one.
        mlp_bias: Whether the feed-forward projections have biases.
        qk_norm: Whether each query and key head is normalised before it is rotated.
        windows: Tokens each layer sees, itself included, 0 for all; none means 0 everywhere.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    context_length: int
    rope_theta: float
    rms_norm_eps: float
    tied_embeddings: bool
    rope_divisors: tuple[float, ...] = ()
    rope_amplitude: float = 1.0
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    windows: tuple[int, ...] = ()

    @property
    def q_size(self) -> int:
        """Width of all query heads."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key (or value) heads."""
        return self.num_kv_heads * self.head_dim

    @property
    def qkv_size(self) -> int:
        """Width of the fused query, key and value projection."""
        return self.q_size + 2 * self.kv_size

    @property
    def layer_parameters(self) -> int:
        """Parameters of one transformer block, norms and biases included."""
        attention = self.hidden_size * (self.qkv_size + self.q_size)
        feed_forward = 3 * self.hidden_size * self.intermediate_size
        biases = self.qkv_bias * self.qkv_size + self.output_bias * self.hidden_size
        biases += self.mlp_bias * (2 * self.intermediate_size + self.hidden_size)
        norms = 2 * self.hidden_size + self.qk_norm * 2 * self.head_dim
        return attention + feed_forward + biases + norms

    @property
    def num_parameters(self) -> int:
        """Distinct parameters; a tied head counts once."""
        embedding = self.vocab_size * self.hidden_size
        tables = embedding if self.tied_embeddings else 2 * embedding
        return tables + self.num_layers * self.layer_parameters + self.hidden_size

    @property
    def resident_weight_bytes(self) -> int:
        """Bytes of the weights in memory as fp32.

        The head is packed for the matrix product while the embedding is read by row, so
        a tied matrix is held in both forms.
        """
        extra = self.vocab_size * self.hidden_size if self.tied_embeddings else 0
        return (self.num_parameters + extra) * FP32_BYTES

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of fp32 keys and values of one token over all layers."""
        return 2 * self.num_layers * self.kv_size * FP32_BYTES

    def window(self, layer: int) -> int:
        """Tokens that a token of layer `layer` sees, itself included; 0 for all."""
        return self.windows[layer] if self.windows else 0
