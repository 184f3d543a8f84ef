from __future__ import annotations

from pathlib import Path

import pytest

from paceline_engine.engine import revision
from paceline_engine.engine.revision import PIECE_BYTES, model_revision


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


def test_pieces_are_bounded(tmp_path: Path) -> None:
    """What is read at once, by each thread, stays small beside a model."""
    assert PIECE_BYTES <= 16 << 20
    with pytest.raises(OSError, match="No such file"):
        model_revision(tmp_path / "none.gguf", 1)
