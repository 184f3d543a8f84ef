"""In what the families differ; everything else is one model, told apart by data.

A family's projections have biases always, never, or as a key of its config.json says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Window(Enum):
    """Which layers see only the last tokens where a configuration names a window."""

    NONE = "no layer, whatever the configuration says"
    ALL = "every layer"
    CHOSEN = "the layers the configuration picks, if it switches the window on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family of Llama-shaped decoders.

    Attributes:
        qkv_bias: Biases of the query, key and value projections.
        output_bias: Bias of attention's output projection.
        mlp_bias: Biases of the feed-forward projections.
        qk_norm: Whether each query and key head is normalised before the rotary embedding.
        head_dim: Width of a head where config.json names none; None divides the hidden size.
        window: Sliding windows.
        interleaved: Whether GGUF conversion makes neighbours of the rows of Q and K that
            rotate together; None where no GGUF architecture has the family's name.
    """

    qkv_bias: bool | str = False
    output_bias: bool | str = False
    mlp_bias: bool | str = False
    qk_norm: bool = False
    head_dim: int | None = None
    window: Window = Window.NONE
    interleaved: bool | None = None


# SmolLM2 calls itself llama, and so does Mistral in GGUF files.
FAMILIES: Final[Mapping[str, Family]] = {
    "llama": Family(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        interleaved=True,
    ),
    "mistral": Family(window=Window.ALL),
    "qwen2": Family(qkv_bias=True, window=Window.CHOSEN, interleaved=False),
    "qwen3": Family(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        head_dim=128,
        window=Window.CHOSEN,
        interleaved=False,
    ),
}
MODEL_TYPES: Final = tuple(FAMILIES)
GGUF_ARCHITECTURES: Final = tuple(
    name for name, family in FAMILIES.items() if family.interleaved is not None
)
