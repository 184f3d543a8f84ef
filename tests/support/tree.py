"""The project's files, for tests that look at the project itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked(*suffixes: str) -> list[Path]:
    """Files of the project, committed or not yet, with one of `suffixes`."""
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = (ROOT / line for line in out.splitlines())
    return [path for path in paths if path.suffix in suffixes and path.is_file()]
