from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import tiny_files


@pytest.fixture(scope="session")
def whole_gguf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return tiny_files.write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf").read_bytes()


@pytest.fixture(scope="session")
def whole_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_files.write_directory(tmp_path_factory.mktemp("directory"))


@pytest.fixture
def directory(whole_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole_directory, tmp_path / "model"))


@pytest.fixture
def gguf_file(whole_gguf: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(whole_gguf)
    return path
