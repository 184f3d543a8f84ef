"""Digest of the code that a module's results follow from: itself and what it imports of ours."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES: Mapping[str, Path] = {
    "paceline_operator": ROOT / "operator" / "src",
    "bench": ROOT,
}


@cache
def digest(*modules: str, without: tuple[str, ...] = ()) -> str:
    """SHA-256 over the sources of the modules and of all that they import of ours.

    Args:
        modules: Dotted names.
        without: Those that do not count, nor what only they import.
    """
    found = sources(*modules, without=without)
    total = hashlib.sha256()
    for name in sorted(found):
        total.update(name.encode() + b"\0" + found[name].read_bytes() + b"\0")
    return total.hexdigest()


def sources(*modules: str, without: tuple[str, ...] = ()) -> dict[str, Path]:
    """The modules and all that they import of ours; arguments as those of `digest`."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if path is None or name in found or name in without:
            continue
        found[name] = path
        waiting.extend(_imported(path))
    return found


def _file_of(name: str) -> Path | None:
    """Source of a module of ours; None for anything else, a name inside a module too."""
    place = PLACES.get(name.partition(".")[0])
    if place is None:
        return None
    stem = place.joinpath(*name.split("."))
    candidates = (stem.with_suffix(".py"), stem / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@cache
def _imported(path: Path) -> tuple[str, ...]:
    tree = ast.parse(path.read_bytes())
    return tuple(_names(node for node in ast.walk(tree)))


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Modules that may be meant, packages on the way included."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from _with_parents(node.module)
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])
