"""Where the compiled kernels lie: a name that changes with sources and compiler flags.

Search order for the loader, first hit wins:

1. the directory in the environment variable `PACELINE_KERNELS`, if set (then nothing else);
2. `_build/` beside this module, where an image or a checkout keeps them;
3. `${PACELINE_CACHE:-~/.cache/paceline}/kernels/`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DIRECTORY_VARIABLE: Final = "PACELINE_KERNELS"
SOURCE_DIRECTORY: Final = Path(__file__).parent / "csrc"
PACKAGE_DIRECTORY: Final = Path(__file__).parent / "_build"
FLAGS: Final = (
    "-std=c++17",
    "-O3",
    "-march=x86-64-v3",
    "-fopenmp",
    "-fPIC",
    "-shared",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
)


def sources() -> list[Path]:
    """Translation units, in a fixed order."""
    return sorted(SOURCE_DIRECTORY.glob("*.cpp"))


def file_name() -> str:
    """Name of the shared object these sources and flags give."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in sorted(SOURCE_DIRECTORY.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return f"paceline_kernels-{digest.hexdigest()[:16]}.so"


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Kernels' folder in the user's cache."""
    cache = environment.get("PACELINE_CACHE") or Path.home() / ".cache" / "paceline"
    return Path(cache) / "kernels"


def search_path(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Directories that may hold the shared object."""
    if chosen := environment.get(DIRECTORY_VARIABLE):
        return [Path(chosen)]
    return [PACKAGE_DIRECTORY, cache_directory(environment)]


def find(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The compiled kernels, or None if nobody has built these sources."""
    name = file_name()
    candidates = (directory / name for directory in search_path(environment))
    return next((path for path in candidates if path.is_file()), None)
