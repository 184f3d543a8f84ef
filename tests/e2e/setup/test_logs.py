"""Logs that tell something are kept, the last ten of them."""

from __future__ import annotations

import os
from pathlib import Path

from e2e.setup.logs import tidy


def run(folder: Path, name: str, age: int, text: str = "said") -> None:
    (folder / name).mkdir()
    (folder / name / "stage.log").write_text(text)
    os.utime(folder / name, (1e9 - age, 1e9 - age))


def test_the_last_ones_stay(tmp_path: Path) -> None:
    for number in range(15):
        run(tmp_path, str(100 + number), age=number)
    tidy(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {str(100 + n) for n in range(10)}


def test_one_that_ran_nothing_displaces_none_that_did(tmp_path: Path) -> None:
    run(tmp_path, "1", age=9)
    for number in range(2, 6):
        run(tmp_path, str(number), age=0, text="")
    tidy(tmp_path, kept=1)
    assert [each.name for each in tmp_path.iterdir()] == ["1"]


def test_other_folders_are_not_its_own(tmp_path: Path) -> None:
    run(tmp_path, "cluster", age=0, text="")
    (tmp_path / "7").touch()
    tidy(tmp_path, kept=0)
    assert {each.name for each in tmp_path.iterdir()} == {"cluster", "7"}


def test_no_folder_is_no_trouble(tmp_path: Path) -> None:
    tidy(tmp_path / "absent")
