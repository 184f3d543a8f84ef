"""Which weights an engine computes with: a digest of the model's files.

Content decides, not a name or a date: KV blocks of two models must never be taken for each
other's. Every byte counts, since models differ in single tensors; pieces are hashed side by
side, as the standard library's SHA-256 runs outside the interpreter's lock.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

PIECE_BYTES: Final = 4 << 20


def model_revision(path: Path, num_threads: int) -> str:
    """SHA-256 over the weights and the shape, as hexadecimal digits.

    Args:
        path: GGUF file, or Hugging Face directory.
        num_threads: Threads that read and hash.

    Raises:
        OSError: A file cannot be read.
    """
    whole = hashlib.sha256()
    with ThreadPoolExecutor(num_threads, thread_name_prefix="revision") as threads:
        for file in _files(path):
            size = file.stat().st_size
            name = b"" if file == path else file.name.encode()
            whole.update(b"%d:%b%d:" % (len(name), name, size))
            offsets = range(0, size, PIECE_BYTES)
            for digest in threads.map(lambda offset, file=file: _piece(file, offset), offsets):
                whole.update(digest)
    return whole.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    """In one order everywhere; the name of a single file does not count."""
    if not path.is_dir():
        yield path
        return
    yield from sorted([*path.glob("*.safetensors"), *path.glob("config.json")])


def _piece(file: Path, offset: int) -> bytes:
    with file.open("rb") as opened:
        return hashlib.sha256(os.pread(opened.fileno(), PIECE_BYTES, offset)).digest()
