"""Loading a model as a start does, to see what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from paceline_engine.kernels.reference import ReferenceKernels
from paceline_engine.models.llama import LlamaModel
from paceline_engine.tokenizer import TokenizerLoadError, load_tokenizer
from paceline_engine.weights import CheckpointError, open_checkpoint

LONGEST_LINE: Final = 1_500


def attempt(path: Path) -> list[str]:
    """Loads tokenizer and model as a start does; returns the lines of what was refused."""
    refusals = []
    try:
        tokenizer = load_tokenizer(str(path))
        tokenizer.decode(tokenizer.encode("ab b\nc<s>"))
    except TokenizerLoadError as error:
        refusals.append(str(error))
    try:
        with open_checkpoint(path) as checkpoint:
            LlamaModel(checkpoint, ReferenceKernels(), 8)
    except CheckpointError as error:
        refusals.append(str(error))
    for line in refusals:
        assert "\n" not in line
        assert len(line) < LONGEST_LINE
        assert line.isprintable()
    return refusals
