"""Text to token ids and back, without torch or transformers.

The server process owns one `Tokenizer`; the engine process sees ids only. How to use it:

    tokenizer = load_tokenizer("model.gguf")           # a directory, or None: bytes
    ids = tokenizer.encode("Once upon a time")         # completions
    ids = tokenizer.apply_chat_template(messages)      # chat, ready for the engine
    tokenizer.eos_token_ids                            # ends a generation
    decoder = tokenizer.incremental_decoder()          # one for each stream
    text = decoder.push([token_id])                    # what is certain so far
    text += decoder.flush()                            # at the end
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
from paceline_engine.tokenizer.hf_source import load_hf_directory
from paceline_engine.tokenizer.incremental import IncrementalDecoder
from paceline_engine.tokenizer.tokenizer import Tokenizer
from paceline_engine.weights.checkpoint import is_directory
from paceline_engine.weights.errors import CheckpointError

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
        model_path: GGUF file or Hugging Face directory; None is the built-in byte
            vocabulary of the simulated device.

    Raises:
        UnsupportedTokenizerError: The tokenizer's kind is not supported.
        TokenizerLoadError: Files are missing or broken.
    """
    if model_path is None:
        return byte_tokenizer()
    path = Path(model_path)
    try:
        return load_hf_directory(path) if is_directory(path) else load_gguf(path)
    except CheckpointError as error:
        raise TokenizerLoadError(str(error)) from error
    except RecursionError as error:
        raise TokenizerLoadError(f"{path}: the chat template is nested too deeply") from error
