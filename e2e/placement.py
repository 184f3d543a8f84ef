"""Puts files where the node expects them, and takes back only what was put.

A record beside them says what was placed; a file that was there before is never in it.
"""

from __future__ import annotations

import filecmp
import json
import shutil
from pathlib import Path
from typing import Any

RECORD = ".placed-by-e2e.json"


class PlacementError(Exception):
    """A file could not be placed or taken back; the text is one line for people."""


def place(source: Path, directory: Path) -> Path:
    """Copies a file there, whole or not at all, unless its like is there already.

    Raises:
        PlacementError: It cannot be read or written, or another file of that name is there.
    """
    target = directory / source.name
    try:
        source.stat()
        if target.is_file() and filecmp.cmp(source, target, shallow=False):
            return target
        if target.exists() and not _is_placed(target):
            raise PlacementError(
                f"{target} is another file than {source} - move it away and run again"
            )
        _record_directories(directory)
        _copy(source, target)
        _record(target)
    except OSError as error:
        raise PlacementError(_problem(source, error)) from error
    return target


def remove(name: str, directory: Path) -> None:
    """Takes a placed file back, and the directories that were made for it.

    Raises:
        PlacementError: Something could not be removed.
    """
    target, record = directory / name, directory / RECORD
    try:
        for interrupted in (_partial(target), _partial(record)):
            interrupted.unlink(missing_ok=True)
        if not record.exists():
            return
        if _is_placed(target):
            target.unlink(missing_ok=True)
        made = _read(record).get("directories", [])
        record.unlink()
        for folder in map(Path, made):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    except OSError as error:
        raise PlacementError(_problem(target, error)) from error


def _copy(source: Path, target: Path) -> None:
    partial = _partial(target)
    try:
        shutil.copyfile(source, partial)
        partial.chmod(0o644)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _record_directories(directory: Path) -> None:
    """Makes a directory, and records which of its parents this was needed for."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    record = directory / RECORD
    if not record.exists():
        _write(record, {"directories": [str(folder) for folder in missing], "files": {}})


def _record(target: Path) -> None:
    record = target.with_name(RECORD)
    known = _read(record)
    _write(record, {**known, "files": {**known.get("files", {}), target.name: _print(target)}})


def _is_placed(target: Path) -> bool:
    """Whether it is the file that was placed, and nobody has written to it since."""
    placed = _read(target.with_name(RECORD)).get("files", {}).get(target.name)
    return target.is_file() and placed == _print(target)


def _print(target: Path) -> dict[str, int]:
    known = target.stat()
    return {"inode": known.st_ino, "size": known.st_size, "mtime_ns": known.st_mtime_ns}


def _read(record: Path) -> dict[str, Any]:
    try:
        found = json.loads(record.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(record: Path, body: dict[str, Any]) -> None:
    partial = _partial(record)
    partial.write_text(json.dumps(body) + "\n")
    partial.replace(record)


def _partial(target: Path) -> Path:
    return target.with_name(f".{target.name}.partial")


def _problem(path: Path, error: OSError) -> str:
    reason = error.strerror or str(error)
    remedy = " - run the same command as root" if isinstance(error, PermissionError) else ""
    return f"{error.filename or path}: {reason}{remedy}"
