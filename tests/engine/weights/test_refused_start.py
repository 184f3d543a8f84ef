"""What only loading finds, as a user sees it: the command ends with one line and code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import tiny_files, tiny_llama

PORTS = [f"--{name}=0" for name in ("port", "health-port", "admin-port")]


@pytest.mark.behaviour(
    "damage that only loading finds ends the command with one line and exit code 2",
    report="corrupt model files: the server starts, then dies with a traceback",
)
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_weights_that_are_not_finite(directory: Path) -> None:
    weights = tiny_llama.tensors(tiny_files.SHAPE)
    weights["model.norm.weight"][2] = np.nan
    tiny_llama.write(directory, tiny_files.SHAPE, weights)
    serve = ["serve", f"--model={directory}", "--device=cpu", "--host=127.0.0.1", *PORTS]
    done = subprocess.run(
        [sys.executable, "-m", "paceline_engine", *serve, "--log-level=error"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert "model.norm.weight that are not finite" in line
