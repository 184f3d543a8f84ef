"""The compiled simulator: made once, told where it cannot be, thrown away when it is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import compiled


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that would have been compiled into."""
    folders: list[Path] = []

    def make(folder: Path) -> None:
        (folder / "paceline_operator").mkdir()
        folders.append(folder)

    monkeypatch.setattr(compiled, "_make", make)
    monkeypatch.setattr(compiled, "_prove", lambda folder: None)
    return folders


def test_it_is_made_once(tmp_path: Path, made: list[Path]) -> None:
    place = compiled.compiled(tmp_path)
    assert (place / "paceline_operator").is_dir()
    assert compiled.compiled(tmp_path) == place
    assert len(made) == 1
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


def test_old_ones_are_thrown_away(tmp_path: Path, made: list[Path]) -> None:
    for age in range(6):
        old = tmp_path / f"{age}abc"
        old.mkdir()
        os.utime(old, (age, age))
    place = compiled.compiled(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {place.name, "3abc", "4abc", "5abc"}


def test_without_a_compiler_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(compiled.CompileError, match="gcc is missing; install it"):
        compiled._make(tmp_path)


def test_one_that_gives_other_figures_is_not_used(
    tmp_path: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def differs(folder: Path) -> None:
        raise compiled.CompileError("the compiled simulator gives other figures")

    monkeypatch.setattr(compiled, "_prove", differs)
    with pytest.raises(compiled.CompileError, match="other figures"):
        compiled.compiled(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_it_cannot_be_made_nothing_is_printed_and_the_reason_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Path:
        raise compiled.CompileError("no compiler here")

    monkeypatch.setattr(compiled, "compiled", fails)
    assert compiled.main() == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "not compiled, runs take three times as long: no compiler here\n"


def test_every_pattern_finds_modules() -> None:
    for pattern in compiled.HOT:
        assert list((compiled.SOURCES / compiled.PACKAGE).glob(pattern)), pattern
