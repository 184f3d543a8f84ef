"""Fills the cache with the cluster's programs: three Go modules and one small C file.

A module is compiled into a directory beside its final one and renamed when it is whole, so an
interrupted build leaves nothing that looks finished.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries, debian
from e2e.cluster.commands import attempt
from e2e.cluster.errors import BuildError, MissingToolError
from e2e.cluster.progress import Say, heartbeat
from e2e.turn import turn

_COMPILE_LIMIT_S = 3600.0
_LONGEST_LINE = 300


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one Go module is compiled.

    Attributes:
        packages: What to build; `.` is the module's own program.
        tags: Go build tags.
        variables: Linker settings of string variables, `package.name` to value.
    """

    packages: tuple[str, ...]
    tags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


_KUBERNETES_VERSION = "k8s.io/component-base/version"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"

RECIPES: Mapping[str, Recipe] = {
    "kubernetes": Recipe(
        (".",),
        # Without them clients see v0.0.0.
        variables=(
            (f"{_KUBERNETES_VERSION}.gitVersion", "v1.37.2"),
            (f"{_KUBERNETES_VERSION}.gitMajor", "1"),
            (f"{_KUBERNETES_VERSION}.gitMinor", "37"),
        ),
    ),
    "containerd": Recipe(
        tuple(f"{_CONTAINERD}/{name}" for name in binaries.PROGRAMS["containerd"]),
        tags=("no_btrfs", "no_zfs", "no_devmapper", "no_aufs", "no_nri"),
    ),
    "helm": Recipe(
        ("helm.sh/helm/v4/cmd/helm",),
        variables=(("helm.sh/helm/v4/internal/version.version", "v4.3.1"),),
    ),
}


def build(cache: Path, say: Say) -> None:
    """Installs missing packages and compiles what is not in the cache.

    Raises:
        ClusterError: A tool is missing or a compiler failed.
    """
    debian.install_missing(say)
    (cache / "bin").mkdir(parents=True, exist_ok=True)
    with turn(cache / "bin" / ".lock", "compiling", lambda text: say("programs", text)):
        for number, module in enumerate(binaries.PROGRAMS, 1):
            say("programs", f"{module}, {number} of {len(binaries.PROGRAMS)}")
            _build_module(cache, module, say)
        _link(cache)
    say("programs", str(binaries.link_directory(cache)))


def command(module: str, target: Path) -> list[str]:
    """Command line that compiles a module's programs into `target`."""
    if module == "pause":
        return ["gcc", "-Os", "-static", "-o", str(target / "pause"), "pause.c"]
    recipe = RECIPES[module]
    variables = " ".join(f"-X {name}={value}" for name, value in recipe.variables)
    tags = ["-tags", " ".join(recipe.tags)] if recipe.tags else []
    output = target / "kubebox" if module == "kubernetes" else f"{target}/"
    flags = ["-mod=readonly", "-trimpath", "-ldflags", f"-s -w {variables}".strip()]
    return ["go", "build", *flags, *tags, "-o", str(output), *recipe.packages]


def _build_module(cache: Path, module: str, say: Say) -> None:
    if binaries.is_built(cache, module):
        say(module, "cached")
        return
    say(module, "compiling")
    _require_compiler("gcc" if module == "pause" else "go")
    final = binaries.module_directory(cache, module)
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{module}-", dir=final.parent) as place:
        fresh = Path(place) / "programs"
        fresh.mkdir(mode=0o755)
        with heartbeat(say, module):
            _compile(command(module, fresh), binaries.MODULES / module)
        shutil.rmtree(final, ignore_errors=True)
        fresh.rename(final)
    say(module, "compiled")


def _compile(words: Sequence[str], source: Path) -> None:
    # The flags are given in full; a GOFLAGS of the user's could contradict them.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    done = attempt(words, environment=environment, directory=source, timeout_s=_COMPILE_LIMIT_S)
    if done.returncode:
        raise BuildError(
            f"{words[0]} could not compile {source.name}: {telling_line(done.stderr)}",
            "check the network and the free disk space, then run the same command again",
        )


def telling_line(output: str) -> str:
    """The first line that speaks of an error; compilers end with a summary that says little."""
    lines = output.strip().splitlines() or ["no message"]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines[-1:])[0].strip()[:_LONGEST_LINE]


def _require_compiler(program: str) -> None:
    if shutil.which(program) is None:
        remedy = {"go": "install Go from https://go.dev/dl", "gcc": "`apt-get install gcc`"}
        raise MissingToolError(f"{program} is not on PATH", remedy[program])


def _link(cache: Path) -> None:
    """Makes the directory for PATH, whole or not at all."""
    final = binaries.link_directory(cache)
    if final.is_dir():
        return
    with tempfile.TemporaryDirectory(prefix=".links-", dir=final.parent) as place:
        fresh = Path(place) / "links"
        fresh.mkdir(mode=0o755)
        for name, program in binaries.links(cache).items():
            (fresh / name).symlink_to(program)
        fresh.rename(final)
