"""Files are placed whole, and only what was placed is taken back."""

import os
import shutil
from pathlib import Path

import pytest

from e2e.placement import RECORD, PlacementError, place, remove


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "node" / "models"


def test_what_was_placed_goes_with_all_that_was_made_for_it(source: Path, directory: Path) -> None:
    assert place(source, directory).read_bytes() == b"weights"
    remove(source.name, directory)
    assert not directory.parent.exists()
    assert directory.parent.parent.exists()


def test_a_users_file_is_used_and_left(source: Path, directory: Path) -> None:
    directory.mkdir(parents=True)
    shutil.copy(source, directory)
    assert place(source, directory) == directory / source.name
    remove(source.name, directory)
    assert [path.name for path in directory.iterdir()] == [source.name]


def test_a_users_other_file_of_that_name_is_not_overwritten(source: Path, directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / source.name).write_bytes(b"another")
    with pytest.raises(PlacementError, match="is another file than"):
        place(source, directory)
    remove(source.name, directory)
    assert (directory / source.name).read_bytes() == b"another"


def test_a_file_of_the_same_size_is_not_taken_for_the_same(source: Path, directory: Path) -> None:
    place(source, directory)
    source.write_bytes(b"WEIGHTS")
    assert place(source, directory).read_bytes() == b"WEIGHTS"


def test_what_somebody_put_over_it_is_left(source: Path, directory: Path) -> None:
    target = place(source, directory)
    (directory / "theirs").write_bytes(b"theirs")
    os.replace(directory / "theirs", target)
    remove(source.name, directory)
    assert target.read_bytes() == b"theirs"
    assert not (directory / RECORD).exists()


def test_folders_that_were_there_or_are_in_use_stay(source: Path, directory: Path) -> None:
    directory.parent.mkdir()
    place(source, directory)
    remove(source.name, directory)
    assert directory.parent.is_dir()
    assert not directory.exists()
    place(source, directory)
    (directory / "theirs").touch()
    remove(source.name, directory)
    assert [path.name for path in directory.iterdir()] == ["theirs"]


def test_an_interrupted_copy_leaves_nothing(
    source: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(_source: Path, target: Path) -> None:
        target.write_bytes(b"wei")
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copyfile", half)
    with pytest.raises(KeyboardInterrupt):
        place(source, directory)
    assert [path.name for path in directory.iterdir()] == [RECORD]
    remove(source.name, directory)
    assert not directory.parent.exists()


def test_a_killed_copy_is_removed_later(source: Path, directory: Path) -> None:
    place(source, directory)
    for name in (source.name, RECORD):
        (directory / f".{name}.partial").write_bytes(b"wei")
    remove(source.name, directory)
    assert not directory.parent.exists()


def test_nothing_to_remove_is_well(directory: Path) -> None:
    remove("model.gguf", directory)
    assert not directory.exists()


def test_a_missing_source_is_one_line(tmp_path: Path, directory: Path) -> None:
    with pytest.raises(PlacementError, match=r"absent: No such file or directory$"):
        place(tmp_path / "absent", directory)
    assert not directory.exists()
