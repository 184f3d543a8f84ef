"""Text to token ids and back, without torch or transformers.

The server process owns one `Tokenizer`; the engine process sees ids only.
"""

from __future__ import annotations

from pathlib import Path

from paceline_engine.tokenizer.byte_vocabulary import byte_tokenizer
from paceline_engine.tokenizer.errors import (
    ChatTemplateError,
    InvalidTextError,
    TokenizerError,
    TokenizerLoadError,
    UnsupportedTokenizerError,
)
from paceline_engine.tokenizer.gguf_source import load_gguf
from paceline_engine.tokenizer.incremental import IncrementalDecoder
from paceline_engine.tokenizer.tokenizer import Tokenizer

__all__ = [
    "ChatTemplateError",
    "IncrementalDecoder",
    "InvalidTextError",
    "Tokenizer",
    "TokenizerError",
    "TokenizerLoadError",
    "UnsupportedTokenizerError",
    "load_tokenizer",
]


def load_tokenizer(model_path: str | None) -> Tokenizer:
    """Loads a model's tokenizer.

    Args:
        model_path: GGUF file; None is the built-in byte vocabulary of the simulated device.

    Raises:
        UnsupportedTokenizerError: The tokenizer's kind is not supported.
        TokenizerLoadError: Files are missing or broken.
    """
    if model_path is None:
        return byte_tokenizer()
    return load_gguf(Path(model_path))
