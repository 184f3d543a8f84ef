"""`python3 -m e2e.setup GOAL...`: brings this machine to where the goals can run.

Goals: operator, engine, model, cluster. Done pieces are found in the cache.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
from types import FrameType

from e2e.cluster import binaries, debian
from e2e.setup import preflight
from e2e.setup.environment import environment_stage, uv_stage
from e2e.setup.model import model_stage
from e2e.setup.place import CACHE, ENGINE_VENV, LOGS, OPERATOR_VENV, ROOT
from e2e.setup.stage import SetupError, Shell, Stage, exit_with, run_stages

GOALS = ("operator", "engine", "model", "cluster")


def cluster_stage() -> Stage:
    """Compiles the test cluster's programs; they are cached by version."""

    def run(shell: Shell) -> None:
        shell.run(
            [OPERATOR_VENV / "bin" / "python", "-m", "e2e.cluster", "build"],
            remedy="see the log and run the same command again",
            cwd=ROOT,
        )

    return Stage("cluster-programs", run, needs=("operator-env",), is_done=_cluster_is_built)


def _cluster_is_built() -> bool:
    built = all(binaries.is_built(CACHE, module) for module in binaries.PROGRAMS)
    return built and binaries.link_directory(CACHE).is_dir() and not debian.missing_packages()


def kernels_stage() -> Stage:
    """Compiles the engine's CPU kernels."""

    def run(shell: Shell) -> None:
        shell.run(
            [ENGINE_VENV / "bin" / "python", "-m", "paceline_engine.kernels.cpu.build"],
            remedy="a C++ compiler with OpenMP is needed: install g++",
        )

    return Stage("kernels", run, needs=("engine-env",))


def stages_for(goals: set[str]) -> list[Stage]:
    """The stages that the goals need, in no particular order."""
    stages = [uv_stage()]
    if goals & {"operator", "cluster"}:
        stages.append(environment_stage("operator"))
    if "engine" in goals:
        stages += [environment_stage("engine"), kernels_stage()]
    if "model" in goals:
        stages.append(model_stage())
    if "cluster" in goals:
        stages.append(cluster_stage())
    return stages


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="e2e.setup", description=__doc__)
    parser.add_argument("goals", nargs="+", choices=GOALS)
    goals = set(parser.parse_args().goals)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        preflight.check(needs_go="cluster" in goals)
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run_stages(stages_for(goals), LOGS / str(os.getpid()))
    except SetupError as error:
        exit_with(error)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
