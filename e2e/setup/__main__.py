"""`python3 -m e2e.setup GOAL...`: brings this machine to where the goals can run.

Goals: operator, engine, model, cluster, prometheus. Done pieces are found in the cache.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from e2e.cluster import binaries, debian
from e2e.interruption import raised
from e2e.setup import logs, preflight
from e2e.setup.environment import environment_stage, uv_stage
from e2e.setup.model import model_stage
from e2e.setup.place import CACHE, ENGINE_VENV, LOGS, OPERATOR_VENV, ROOT
from e2e.setup.prometheus import prometheus_stage
from e2e.setup.stage import SetupError, Shell, Stage, exit_with, run_stages
from e2e.turn import turn

GOALS = ("operator", "engine", "model", "cluster", "prometheus")
_LOG = LOGS / str(os.getpid())


def cluster_stage() -> Stage:
    """Compiles the test cluster's programs; they are cached by version."""

    def run(shell: Shell) -> None:
        shell.run(
            [OPERATOR_VENV / "bin" / "python", "-m", "e2e.cluster", "build"],
            remedy="see the log and run the same command again",
            cwd=ROOT,
        )

    return Stage(
        "cluster-programs",
        run,
        needs=("operator-env",),
        is_done=_cluster_is_built,
        tools=() if _is_compiled() else ("gcc", "go"),
        disk_gb={} if _is_compiled() else {CACHE: 0.5, Path.home(): 7.5},
        progress=_compiled,
    )


def _compiled() -> str:
    """How far the compiling has come; Kubernetes, the first, takes most of it."""
    done = [module for module in binaries.PROGRAMS if binaries.is_built(CACHE, module)]
    names = f" ({', '.join(done)})" if done else ""
    now = next((f", now {module}" for module in binaries.PROGRAMS if module not in done), "")
    return f"{len(done)} of {len(binaries.PROGRAMS)} compiled{names}{now}"


def _is_compiled() -> bool:
    return all(binaries.is_built(CACHE, module) for module in binaries.PROGRAMS)


def _cluster_is_built() -> bool:
    linked = binaries.link_directory(CACHE).is_dir()
    return _is_compiled() and linked and not debian.missing_packages()


def kernels_stage() -> Stage:
    """Compiles the engine's CPU kernels."""

    def run(shell: Shell) -> None:
        shell.run(
            [ENGINE_VENV / "bin" / "python", "-m", "paceline_engine.kernels.cpu.build"],
            remedy="a C++ compiler with OpenMP is needed: install g++",
        )

    return Stage("kernels", run, needs=("engine-env",), is_done=_kernels_are_built, tools=("g++",))


def _kernels_are_built() -> bool:
    """Asks the engine's own module, which needs nothing but the standard library."""
    path = ROOT / "engine/src/paceline_engine/kernels/cpu/artifact.py"
    return runpy.run_path(str(path))["find"]() is not None


def stages_for(goals: set[str], *, as_is: bool = False) -> list[Stage]:
    """The stages that the goals need, in no particular order; uv only where it has work."""
    stages = []
    if goals & {"operator", "cluster"}:
        stages.append(environment_stage("operator", as_is=as_is))
    if "engine" in goals:
        stages += [environment_stage("engine", as_is=as_is), kernels_stage()]
    if "model" in goals:
        stages.append(model_stage())
    if "cluster" in goals:
        stages.append(cluster_stage())
    if "prometheus" in goals:
        stages.append(prometheus_stage())
    wanted = any("uv" in stage.needs and not stage.is_done() for stage in stages)
    return [uv_stage(), *stages] if wanted else stages


def set_up(goals: set[str], *, as_is: bool = False) -> None:
    """Brings the machine to where the goals can run.

    Raises:
        SetupError: It cannot.
    """
    if not CACHE.is_absolute():
        raise SetupError(f"PACELINE_CACHE={CACHE} is not an absolute path - give the whole path")
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with turn(CACHE / "setup.lock", f"its logs are in {_LOG}", _say):
            stages = stages_for(goals, as_is=as_is)
            preflight.check(goals, [stage for stage in stages if not stage.is_done()])
            try:
                run_stages(stages, _LOG)
            finally:
                logs.tidy(LOGS)
    except OSError as error:
        where = error.filename or CACHE
        raise SetupError(
            f"{where}: {error.strerror} - free some disk, or point PACELINE_CACHE at a "
            "directory that may be written"
        ) from error


def _say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="e2e.setup", description=__doc__)
    parser.add_argument("goals", nargs="+", choices=GOALS)
    parser.add_argument(
        "--as-is", action="store_true", help="use whole environments though pins have changed"
    )
    options = parser.parse_args()
    try:
        with raised():
            set_up(set(options.goals), as_is=options.as_is)
    except SetupError as error:
        exit_with(error)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
