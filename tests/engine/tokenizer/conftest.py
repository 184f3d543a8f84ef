from __future__ import annotations

import os
from pathlib import Path

import pytest

from paceline_engine.tokenizer import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def model_path() -> Path:
    cache = Path(os.environ.get("PACELINE_CACHE", "~/.cache/paceline")).expanduser()
    default = cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    return Path(os.environ.get("PACELINE_MODEL", default))


@pytest.fixture(scope="session")
def smollm2(model_path: Path) -> Tokenizer:
    return load_tokenizer(str(model_path))


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    return load_tokenizer(None)
