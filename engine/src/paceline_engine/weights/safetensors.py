"""Hugging Face directories: config.json plus model.safetensors, whole or in shards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from paceline_engine.weights.consistency import check_finite, check_tensors
from paceline_engine.weights.errors import (
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedModelError,
)
from paceline_engine.weights.fields import Fields
from paceline_engine.weights.file import ModelFile
from paceline_engine.weights.hf_config import read_config
from paceline_engine.weights.json_object import read_json_object
from paceline_engine.weights.model_config import ModelConfig
from paceline_engine.weights.safetensors_header import StoredTensor, read_header

SINGLE_FILE: Final = "model.safetensors"
INDEX_FILE: Final = "model.safetensors.index.json"
_HEAD: Final = "lm_head.weight"


def read_directory_config(path: Path) -> ModelConfig:
    """Reads the model's shape and checks that each weight file is there and whole."""
    with SafetensorsCheckpoint(path) as checkpoint:
        return checkpoint.config


class SafetensorsCheckpoint:
    """A directory of open safetensors files.

    Raises:
        CheckpointError: When built: files missing, damaged, or not a Llama-like model.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        config = read_config(path)
        with ExitStack() as opening:
            self._tensors = dict(_open_tensors(path, opening))
            # As in transformers, a head in the file counts, whatever the configuration ties.
            is_tied = config.tied_embeddings and _HEAD not in self._tensors
            self.config = replace(config, tied_embeddings=is_tied)
            self._check_tensors()
            self._open_files = opening.pop_all()

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Reads one tensor as fp32; see `Checkpoint.tensor`."""
        if name not in self._tensors:
            raise CorruptCheckpointError(self._path, f"has no tensor {name}")
        file, stored = self._tensors[name]
        return check_finite(file.path, name, _widened(file, name, stored))

    def close(self) -> None:
        """Closes the files; safe to call twice."""
        self._open_files.close()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the files."""
        self.close()

    def _check_tensors(self) -> None:
        check_tensors(
            self._path,
            self.config,
            {name: stored.shape for name, (_, stored) in self._tensors.items()},
            lambda name: name,
            lambda name: name.endswith("rotary_emb.inv_freq"),  # older exports; computed here
        )


def _widened(file: ModelFile, name: str, stored: StoredTensor) -> NDArray[np.float32]:
    """One tensor in fp32, exactly."""
    values: NDArray[np.float32]
    content = file.read(stored.offset, stored.size)
    match stored.dtype:
        case "F32":
            values = np.frombuffer(content, "<f4")
        case "BF16":  # the upper half of an fp32 number
            values = (np.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4")
        case "F16" | "F64":
            layout = "<f2" if stored.dtype == "F16" else "<f8"
            with np.errstate(over="ignore"):  # what overflows is refused with its name
                values = np.frombuffer(content, layout).astype("<f4")
        case _:
            raise UnsupportedModelError(
                file.path,
                f"stores {name} as {stored.dtype}; quantised weights are not supported yet",
            )
    return values.reshape(stored.shape)


def _open_tensors(
    path: Path, opening: ExitStack
) -> Iterator[tuple[str, tuple[ModelFile, StoredTensor]]]:
    """Every tensor with the file it lies in; files are left open on `opening`."""
    single, index = path / SINGLE_FILE, path / INDEX_FILE
    if os.path.exists(single) or not os.path.exists(index):
        yield from _tensors_of(_opened(single, opening), None)
        return
    shards = _shards(index)
    for shard, names in sorted(shards.items()):
        yield from _tensors_of(_opened(path / shard, opening), names)


def _opened(path: Path, opening: ExitStack) -> ModelFile:
    try:
        return opening.enter_context(ModelFile(path))
    except CheckpointNotFoundError as error:
        others = [name for name in ("pytorch_model.bin",) if os.path.exists(path.parent / name)]
        if not others:
            raise
        raise UnsupportedModelError(
            path.parent, f"has {others[0]} and no {path.name}; convert it to safetensors"
        ) from error


def _tensors_of(
    file: ModelFile, names: set[str] | None
) -> Iterator[tuple[str, tuple[ModelFile, StoredTensor]]]:
    """Tensors of one file; `names` are those that the index says are there."""
    header = read_header(file)
    for name in sorted((names or set()) - header.keys()):
        raise CorruptCheckpointError(
            file.path, f"has no tensor {name}, which the index puts there; download it again"
        )
    for name, stored in header.items():
        if names is None or name in names:
            yield name, (file, stored)


def _shards(index: Path) -> dict[str, set[str]]:
    """Names of tensors by the file that the index puts them into."""
    shards: dict[str, set[str]] = {}
    weight_map = Fields(index, read_json_object(index)).inner("weight_map")
    for name, file in weight_map.values.items():
        is_name = isinstance(file, str) and Path(file).name == file and file not in ("", "..")
        if not is_name:
            raise CorruptCheckpointError(index, f"puts tensor {name} into {file!r}, no file name")
        shards.setdefault(file, set()).add(name)
    if not shards:
        raise CorruptCheckpointError(index, "has no weight_map")
    return shards
