"""JSON files beside a model's weights: one object, of bounded size and depth."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from paceline_engine.weights.errors import CorruptCheckpointError
from paceline_engine.weights.file import ModelFile

# The largest in use are tokenizer.json files of some 35 MB.
LARGEST_BYTES: Final = 256 << 20


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads the object in the file at `path`.

    Raises:
        CheckpointError: No file, not readable, not JSON or not an object; one line.
    """
    with ModelFile(path) as file:
        if file.size > LARGEST_BYTES:
            raise CorruptCheckpointError(path, f"has {file.size} bytes, too many for its kind")
        return parse_json_object(path, bytes(file.read(0, file.size)))


def read_json_object_if_there(path: Path) -> dict[str, Any]:
    """As `read_json_object`; empty where there is no such file."""
    return read_json_object(path) if os.path.exists(path) else {}


def parse_json_object(path: Path, content: bytes, *, distinct: bool = False) -> dict[str, Any]:
    """Parses one JSON object in UTF-8.

    Args:
        path: Where it is from, for the error's text.
        content: The bytes.
        distinct: Whether a key that is named twice is an error; else the last one counts.

    Raises:
        CorruptCheckpointError: It is no object.
    """
    hook = _distinct if distinct else None
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=hook)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise CorruptCheckpointError(path, f"is no readable JSON: {reason}") from error
    if not isinstance(value, dict):
        raise CorruptCheckpointError(path, "is not a JSON object")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found
