"""Where the compiled programs are: a cache keyed by module versions and sources.

`build` fills the cache; everything else asks here. A module's key is a digest of its go.mod,
go.sum and source files, so a change compiles that module alone and old programs stay usable.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.errors import BinaryMissingError

MODULES = Path(__file__).parent / "modules"

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "kubernetes": ("kubebox",),
    "containerd": ("containerd", "containerd-shim-runc-v2", "ctr"),
    "helm": ("helm",),
    "pause": ("pause",),
}
"""Programs that each module builds."""

KUBEBOX_LINKS = (
    "coredns",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
"""Names under which the multi-call binary is linked."""


def module_key(source: Path) -> str:
    """Digest of a module's versions and sources."""
    digest = hashlib.sha256()
    files = [
        source / "go.mod",
        source / "go.sum",
        *sorted(source.glob("*.go")),
        *sorted(source.glob("*.c")),
    ]
    for file in files:
        content = file.read_bytes() if file.exists() else b""
        digest.update(f"{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def module_directory(cache: Path, module: str) -> Path:
    """Directory of one module's programs, whether built or not."""
    return cache / "bin" / f"{module}-{module_key(MODULES / module)}"


def link_directory(cache: Path) -> Path:
    """Directory with a link to every program: the one to put on PATH."""
    keys = "".join(module_key(MODULES / module) for module in PROGRAMS)
    return cache / "bin" / hashlib.sha256(keys.encode()).hexdigest()[:16]


def links(cache: Path) -> dict[str, Path]:
    """Every name in the link directory, with the program that it stands for."""
    named = {
        program: module_directory(cache, module) / program
        for module, programs in PROGRAMS.items()
        for program in programs
    }
    return {**named, **dict.fromkeys(KUBEBOX_LINKS, named["kubebox"])}


def is_built(cache: Path, module: str) -> bool:
    """Whether all programs of a module are in the cache."""
    directory = module_directory(cache, module)
    return all((directory / program).is_file() for program in PROGRAMS[module])


def require(cache: Path, program: str) -> Path:
    """Path of a compiled program.

    Raises:
        BinaryMissingError: It has not been built for the present versions.
    """
    module = next(name for name, programs in PROGRAMS.items() if program in programs)
    path = module_directory(cache, module) / program
    if not path.is_file():
        raise BinaryMissingError(f"{program} is not built ({path})", "run `make cluster-build`")
    return path
