"""The product's simulator and law, compiled: an evaluation plays in a third of the time.

    PYTHONPATH=$(python -m bench.compiled) python -m bench.conformance

with the operator's environment. mypyc turns the modules below into C extensions, as they stand,
beside a copy of the package in the cache; the folder is printed on standard output. Before it is
used, one fleet is simulated with it and without it: every figure must be the same. Where it
cannot be made the reason is told in a line, nothing is printed, and all runs uncompiled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "operator" / "src"
PACKAGE = "paceline_operator"
CACHE = Path(os.environ.get("PACELINE_CACHE") or "~/.cache/paceline").expanduser() / "compiled"
READ = ("api", "autopilot", "domain", "simulator")
"""Parts of the package that a simulation runs."""
HOT = (
    "simulator/engine/*.py",
    "simulator/metering/*.py",
    "simulator/scoring/*.py",
    "simulator/fleet/agenda.py",
    "simulator/fleet/clients.py",
    "simulator/fleet/ledger.py",
    "simulator/fleet/router.py",
    "simulator/loads/lengths.py",
    "simulator/loads/rates.py",
    "simulator/loads/single_turns.py",
    "simulator/law.py",
    "simulator/request.py",
    "simulator/sink.py",
    "simulator/step_budget.py",
    "autopilot/measurement/attainment.py",
    "autopilot/plant/capacity.py",
    "autopilot/demand/forecast.py",
    "autopilot/plant/fit.py",
    "autopilot/vocabulary/fleet.py",
    "autopilot/plant/law.py",
    "autopilot/plant/linear.py",
    "autopilot/measurement/minutes.py",
    "autopilot/plant/plant.py",
    "autopilot/vocabulary/slices.py",
    "autopilot/demand/trend.py",
    "autopilot/vocabulary/window.py",
    "autopilot/plant/workload.py",
)
"""Where the time goes; classes that mypyc cannot make (protocols that are asked for at run time)
are in none of them."""
KEPT = 4
_SETTINGS = """[mypy]
explicit_package_bases = true
namespace_packages = true
ignore_missing_imports = true
follow_imports = silent
"""
_PROOF = "bench.conformance.fingerprint"


class CompileError(Exception):
    """It cannot be compiled here; the text says why in a line."""


def main() -> int:
    """Prints the folder; 0 also where there is none, since nothing needs it."""
    try:
        print(compiled())
    except CompileError as error:
        print(f"not compiled, runs take three times as long: {error}", file=sys.stderr)
    return 0


def compiled(cache: Path = CACHE) -> Path:
    """The folder to put before all others on the path of modules, made where it is missing.

    Raises:
        CompileError: It cannot be made.
    """
    place = cache / _key()
    if not place.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".making-") as folder:
            _make(Path(folder))
            _prove(Path(folder))
            _keep(Path(folder), place)
        _forget(cache)
    return place


def _key() -> str:
    total = hashlib.sha256(f"{sys.version}\0{HOT}".encode())
    for part in READ:
        for path in sorted((SOURCES / PACKAGE / part).rglob("*.py")):
            total.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def _make(folder: Path) -> None:
    """Copies the package and compiles what is hot in it."""
    if shutil.which("gcc") is None:
        raise CompileError("gcc is missing; install it (Debian: apt install gcc)")
    print("compiling the simulator, two or three minutes ...", file=sys.stderr, flush=True)
    unneeded = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCES / PACKAGE, folder / PACKAGE, ignore=unneeded)
    (folder / "mypy.ini").write_text(_SETTINGS)
    mypyc = Path(sys.executable).with_name("mypyc")
    _run([sys.executable, mypyc, *_hot(folder)], folder, {"MYPYPATH": f"{folder}"})
    shutil.rmtree(folder / "build")
    shutil.rmtree(folder / ".mypy_cache", ignore_errors=True)


def _hot(folder: Path) -> Iterator[str]:
    for pattern in HOT:
        for path in sorted((folder / PACKAGE).glob(pattern)):
            if path.name != "__init__.py":
                yield f"{path.relative_to(folder)}"


def _prove(folder: Path) -> None:
    plain, fast = (
        _run([sys.executable, "-m", _PROOF], ROOT, {"PYTHONPATH": os.pathsep.join(path)})
        for path in ((f"{SOURCES}", f"{ROOT}"), (f"{folder}", f"{ROOT}"))
    )
    if plain != fast:
        raise CompileError("the compiled simulator gives other figures than the plain one")


def _run(command: Iterable[str | Path], folder: Path, variables: dict[str, str]) -> str:
    env = {**os.environ, **variables}
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["no output"]
        raise CompileError(f"{last[0].strip()}")
    return done.stdout


def _keep(folder: Path, place: Path) -> None:
    try:
        folder.rename(place)
    except OSError:
        if not place.is_dir():  # else another run was faster
            raise
    else:
        folder.mkdir()  # for whoever made the temporary folder to remove


def _forget(cache: Path) -> None:
    """Removes all but the newest few: every change of the law leaves one."""
    made = sorted(cache.glob("[0-9a-f]*"), key=lambda path: path.stat().st_mtime)
    for old in made[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
