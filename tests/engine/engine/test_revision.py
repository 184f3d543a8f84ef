from __future__ import annotations

import os
from pathlib import Path

import pytest

from paceline_engine.engine import revision
from paceline_engine.engine.revision import model_revision


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revision, "PIECE_BYTES", 64)


def directory(path: Path, **files: bytes) -> Path:
    path.mkdir()
    for name, content in files.items():
        (path / name.replace("_", ".")).write_bytes(content)
    return path


@pytest.mark.behaviour(
    "a model's identity is its content: the same name with other weights shares no KV block",
    report="vllm #30931, #42125, #3264: reloaded or equally named adapters shared KV",
)
@pytest.mark.parametrize("place", [0, 63, 64, 200, 999])
def test_any_changed_byte_is_another_model(tmp_path: Path, place: int) -> None:
    file = tmp_path / "model.gguf"
    content = bytearray(i % 251 for i in range(1000))
    file.write_bytes(content)
    first = model_revision(file, 2)
    content[place] ^= 1
    file.write_bytes(content)
    assert model_revision(file, 2) != first


def test_name_place_and_threads_do_not_matter(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    for file in (first, second):
        file.write_bytes(b"weights" * 100)
    assert model_revision(first, 1) == model_revision(second, 3)
    directory(tmp_path / "x", model_safetensors=b"w" * 99, config_json=b"{}")
    directory(tmp_path / "y", model_safetensors=b"w" * 99, config_json=b"{}", README_md=b"new")
    assert model_revision(tmp_path / "x", 1) == model_revision(tmp_path / "y", 2)


def test_shape_and_the_cut_between_shards_matter(tmp_path: Path) -> None:
    made = [
        directory(tmp_path / "a", a_safetensors=b"w" * 70, b_safetensors=b"w", config_json=b"{}"),
        directory(tmp_path / "b", a_safetensors=b"w" * 71, b_safetensors=b"", config_json=b"{}"),
        directory(tmp_path / "c", a_safetensors=b"w" * 71, config_json=b"{}"),
        directory(tmp_path / "d", a_safetensors=b"w" * 71, config_json=b"{ }"),
    ]
    assert len({model_revision(path, 2) for path in made}) == len(made)


def test_what_is_read_at_once_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By each thread, and whatever the size of the file: small beside a model."""
    sizes: list[int] = []
    pread = os.pread

    def measured(descriptor: int, size: int, offset: int) -> bytes:
        content = pread(descriptor, size, offset)
        sizes.append(len(content))
        return content

    monkeypatch.setattr(os, "pread", measured)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"w" * 1000)
    model_revision(file, 2)
    assert (max(sizes), sum(sizes)) == (64, 1000)


def test_a_model_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        model_revision(tmp_path / "none.gguf", 1)
