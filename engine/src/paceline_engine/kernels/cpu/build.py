"""`python -m paceline_engine.kernels.cpu.build`: compiles the C++ kernels once.

No torch is needed to compile: the shared object names `libgomp.so.1`, and when it is loaded
the copy that torch brought is in the process already, so there is one OpenMP runtime.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from paceline_engine.kernels.cpu import artifact


class KernelBuildError(Exception):
    """The kernels cannot be compiled; one line with a remedy."""


def build(directory: Path, compiler: str) -> Path:
    """Compiles into `directory` unless the same sources are there already.

    Raises:
        KernelBuildError: No compiler, no place to write, or the compiler refuses.
    """
    target = directory / artifact.file_name()
    if target.is_file():
        return target
    if shutil.which(compiler) is None:
        raise KernelBuildError(f"no C++ compiler {compiler!r}: install g++ or set CXX")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            made = Path(scratch) / target.name
            _compile(compiler, made)
            made.replace(target)  # atomic: two builds at once leave one whole file
    except OSError as error:
        raise KernelBuildError(f"cannot write to {directory} ({error}): use --output") from error
    return target


def _compile(compiler: str, target: Path) -> None:
    command = [compiler, *artifact.FLAGS, *map(str, artifact.sources()), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise KernelBuildError(
            f"{compiler} ended with code {done.returncode}; g++ 9 or newer with OpenMP is needed"
        )


def _default_directory() -> Path:
    """`PACELINE_KERNELS`, else beside the package where that may be written, else the cache."""
    chosen = os.environ.get(artifact.DIRECTORY_VARIABLE)
    if chosen:
        return Path(chosen)
    writable = os.access(artifact.PACKAGE_DIRECTORY.parent, os.W_OK)
    return artifact.PACKAGE_DIRECTORY if writable else artifact.cache_directory()


def main() -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m paceline_engine.kernels.cpu.build",
        description="Compile the engine's CPU kernels.",
    )
    parser.add_argument("--output", type=Path, help="folder of the result")
    output = parser.parse_args().output or _default_directory()
    try:
        path = build(output, os.environ.get("CXX", "g++"))
    except KernelBuildError as error:
        print(f"kernels: {error}", file=sys.stderr)
        return 1
    print(f"kernels: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
