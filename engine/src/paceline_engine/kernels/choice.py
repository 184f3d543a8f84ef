"""Which kernels a model gets on this processor."""

from __future__ import annotations

import logging
from pathlib import Path

import torch

from paceline_engine.kernels.base import Kernels
from paceline_engine.kernels.cpu import artifact
from paceline_engine.kernels.cpu.library import LANES, CpuKernels
from paceline_engine.kernels.reference import ReferenceKernels

_LOG = logging.getLogger(__name__)


def choose_kernels(head_dim: int, block_size: int) -> Kernels:
    """The compiled kernels where they can run, else plain torch with one line in the log."""
    path = artifact.find()
    if reason := _why_not(path, head_dim, block_size):
        _LOG.warning("plain torch kernels, several times slower: %s", reason)
        return ReferenceKernels()
    assert path is not None  # noqa: S101  (a missing file is a reason)
    try:
        return CpuKernels(path)
    except (OSError, AttributeError) as error:
        _LOG.warning("plain torch kernels, several times slower: %s", error)
        return ReferenceKernels()


def _why_not(path: Path | None, head_dim: int, block_size: int) -> str:
    if path is None:
        where = " or ".join(str(directory) for directory in artifact.search_path())
        return (
            f"no {artifact.file_name()} in {where}; run "
            "`python -m paceline_engine.kernels.cpu.build` with this Python"
        )
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        return "this processor has no AVX2"
    if head_dim % LANES or block_size % LANES:
        return f"head width {head_dim} or block size {block_size} is no multiple of {LANES}"
    return ""
