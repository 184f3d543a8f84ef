"""The SmolLM2 file that the set-up downloads."""

from __future__ import annotations

import os
from pathlib import Path

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model_file() -> Path:
    cache = Path(os.environ.get("PACELINE_CACHE") or Path.home() / ".cache" / "paceline")
    path = Path(os.environ.get("PACELINE_MODEL") or cache / "models" / NAME)
    assert path.is_file(), f"no model file {path}: run `python3 -m e2e.setup model`"
    return path
