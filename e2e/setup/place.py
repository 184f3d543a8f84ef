"""Where things live: the checkout, and the cache outside of it that all checkouts share."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("PACELINE_CACHE") or "~/.cache/paceline").expanduser()
LOGS = CACHE / "logs"
MODEL_FILE = CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
OPERATOR_VENV = ROOT / ".venv-operator"
ENGINE_VENV = ROOT / ".venv-engine"


def device(path: Path) -> int:
    """File system that a directory lies on, or would lie on once it is made."""
    return next(each for each in (path, *path.parents) if each.exists()).stat().st_dev
