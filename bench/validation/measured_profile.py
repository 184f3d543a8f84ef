"""The CPU engine's step-time law on this machine, at this hour.

Machines differ, and one machine is not the same every day: what a simulation is compared with has
to be served by the machine that its law was measured on.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.validation.served_engine import ServedEngineError, end
from e2e.setup.place import ENGINE_VENV
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.profiles import Profile
from paceline_operator.simulator.step_noise import StepNoise

ROOT = Path(__file__).parents[2]


def measure(model: Path) -> Profile:
    """Runs `bench.fit_cpu_profile` in the engine's environment; about 90 s.

    Raises:
        ServedEngineError: It failed, or others kept the machine busy.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(str(ENGINE_VENV / "bin" / "python"), "-m", "bench.fit_cpu_profile"),
            *("--model", str(model), "--results", folder),
        ]
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'operator' / 'src'}{os.pathsep}{ROOT}"}
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            output, errors = process.communicate()
        finally:
            end(process)  # asked, not killed, it ends the engine that it has started
        if process.returncode:
            said = (errors or output).strip().splitlines()
            raise ServedEngineError(f"the step-time law: {said[-1] if said else 'nothing said'}")
        (found,) = Path(folder).glob("cpu-profile-*.json")
        return read(json.loads(found.read_text()))


def read(result: Mapping[str, Any]) -> Profile:
    """The profile in a result of `bench.fit_cpu_profile`."""
    return Profile(
        law=StepLaw(**result["law"]),
        kv_capacity_tokens=int(result["kv_capacity_tokens"]),
        source=f"measured just before, {result['time']}",
        step_noise=StepNoise(decode=result["decode_error"], prefill=result["prefill_error"]),
    )
