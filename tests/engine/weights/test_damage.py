"""Models cut, absurd, unreadable or changed while they are read: one typed line each."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paceline_engine.kernels.reference import ReferenceKernels
from paceline_engine.models.llama import LlamaModel
from paceline_engine.weights import (
    CheckpointNotFoundError,
    CorruptCheckpointError,
    open_checkpoint,
    read_model_config,
)
from tests.support import tiny_files
from tests.support.loading import attempt


def test_the_whole_ones_load(directory: Path, gguf_file: Path) -> None:
    assert attempt(directory) == []
    assert attempt(gguf_file) == []


def regions(content: bytes) -> dict[str, int]:
    """Where the parts of the GGUF file begin."""
    first_tensor = content.index(b"token_embd.weight") - 8
    return {
        "magic": 2,
        "version": 6,
        "counts": 12,
        "metadata": content.index(b"general.architecture"),
        "token list": content.index(b"tokenizer.ggml.tokens") + 60,
        "tensor infos": first_tensor,
        "within the tensor infos": first_tensor + 40,
        "padding": len(content) - len(content) // 3,
        "data": len(content) - 64,
    }


@pytest.mark.behaviour(
    "a GGUF file cut in any of its parts is refused in one line that names it",
    report="corrupt model files: a download that broke off",
)
@pytest.mark.parametrize("region", sorted(regions(b"general.architecture" + b"tokenizer.ggml.tokens"
                                                  + b"token_embd.weight")))  # fmt: skip
def test_a_cut_in_each_part(gguf_file: Path, region: str) -> None:
    content = gguf_file.read_bytes()
    gguf_file.write_bytes(content[: regions(content)[region]])
    with pytest.raises(CorruptCheckpointError) as raised:
        read_model_config(gguf_file)
    assert str(gguf_file) in str(raised.value)


def _key(name: str, kind: int, content: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + content


def _tensor(name: str, shape: list[int], kind: int = 0, offset: int = 0) -> bytes:
    head = struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
    return head + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, offset)


def _gguf(keys: list[bytes] = [], tensors: list[bytes] = [], **counts: int) -> bytes:  # noqa: B006
    num_tensors = counts.get("num_tensors", len(tensors))
    head = struct.pack("<4sIQQ", b"GGUF", 3, num_tensors, counts.get("num_keys", len(keys)))
    return head + b"".join(keys) + b"".join(tensors)


HUGE = 2**62
ABSURD = {
    "keys without end": _gguf(num_keys=HUGE),
    "tensors without end": _gguf(num_tensors=HUGE),
    "a text without end": _gguf([_key("a", 8, struct.pack("<Q", HUGE))]),
    "a list without end": _gguf([_key("a", 9, struct.pack("<IQ", 5, HUGE))]),
    "a list of texts without end": _gguf([_key("a", 9, struct.pack("<IQ", 8, HUGE))]),
    "a list that overflows": _gguf([_key("a", 9, struct.pack("<IQ", 12, 2**61 + 1))]),
    "lists of lists": _gguf([_key("a", 9, struct.pack("<IQ", 9, 1) * 50_000)]),
    "an unknown kind of value": _gguf([_key("a", 77, b"")]),
    "an unknown kind in a list": _gguf([_key("a", 9, struct.pack("<IQ", 77, 1))]),
    "the same key twice": _gguf([_key("a", 4, bytes(4))] * 2),
    "a name that is no text": _gguf([struct.pack("<Q", 2) + b"\xff\xfe" + struct.pack("<I", 4)]),
    "no alignment": _gguf([_key("general.alignment", 4, bytes(4))]),
    "an alignment without end": _gguf(
        [_key("general.alignment", 10, struct.pack("<Q", HUGE))], [_tensor("x", [4])]
    ),
    "dimensions without end": _gguf(tensors=[_tensor("x", [2] * 400)]),
    "a tensor without end": _gguf(tensors=[_tensor("x", [HUGE, HUGE])]),
    "a tensor of an unknown kind": _gguf(tensors=[_tensor("x", [4], kind=999)]),
    "a tensor outside the file": _gguf(tensors=[_tensor("x", [4], offset=HUGE)]),
    "tensors in the same bytes": _gguf(tensors=[_tensor("x", [4]), _tensor("y", [4])]) + bytes(99),
    "the same tensor twice": _gguf(tensors=[_tensor("x", [4])] * 2),
    "half a block": _gguf(tensors=[_tensor("x", [17], kind=8)]) + bytes(999),
    "no dimensions": _gguf(tensors=[_tensor("x", [])]) + bytes(999),
    "another version": struct.pack("<4sIQQ", b"GGUF", 1, 0, 0),
    "another format": b"PK\x03\x04" + bytes(999),
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
    "nothing": b"",
}
BUDGET_S = 20


def test_absurd_numbers_cost_neither_time_nor_memory(tmp_path: Path) -> None:
    """In a process that may not take more than 1.5 GiB: counts never become allocations."""
    for name, content in ABSURD.items():
        (tmp_path / f"{name}.gguf").write_bytes(content)
    safetensors = {
        "header without end": struct.pack("<Q", HUGE) + b"{}",
        "shape without end": _safetensors({"x": entry([2**40, 2**40], 0, 4)}),
        "element count overflows": _safetensors({"x": entry([2**63, 2], 0, 0)}),
    }
    for name, content in safetensors.items():
        folder = tiny_files.write_directory(tmp_path / name)
        (folder / "model.safetensors").write_bytes(content)
    for key in ("vocab_size", "num_hidden_layers", "head_dim", "max_position_embeddings"):
        folder = tiny_files.write_directory(tmp_path / f"{key} without end")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {key: 2**39}))
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from paceline_engine.weights import CheckpointError, read_model_config\n"
        "read_model_config  # numpy and gguf are loaded by the first call\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))\n"
        "for path in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    try:\n"
        "        read_model_config(path)\n"
        "        print('loaded', path.name)\n"
        "    except CheckpointError as error:\n"
        "        print('refused', path.name)\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=BUDGET_S * 2,
        check=False,
        env=environment,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    # A context without end is a number that only the memory plan can judge.
    loaded = [line for line in lines if line.startswith("loaded")]
    assert loaded == ["loaded max_position_embeddings without end"]
    assert len(lines) == len(ABSURD) + len(safetensors) + 4


@pytest.mark.parametrize("content", ABSURD.values(), ids=ABSURD.keys())
def test_absurd_numbers_are_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    refusals = attempt(path)
    assert refusals
    assert all(str(path) in line for line in refusals)


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def _safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


SAFETENSORS = {
    "nothing": b"",
    "half a length": b"\x05\x00",
    "a header longer than the file": struct.pack("<Q", 500) + b"{}",
    "no JSON": _safetensors(b"{x"),
    "no object": _safetensors([1]),
    "no tensors": _safetensors({}),
    "the same tensor twice": _safetensors(b'{"x": 1, "x": 1}'),
    "an entry that is a number": _safetensors({"x": 1}),
    "no offsets": _safetensors({"x": {"dtype": "F32", "shape": [1]}}),
    "three offsets": _safetensors({"x": {**entry([1], 0, 4), "data_offsets": [0, 4, 8]}}),
    "offsets that are texts": _safetensors({"x": {**entry([1], 0, 4), "data_offsets": ["0", "4"]}}),
    "offsets that are true": _safetensors({"x": {**entry([1], 0, 4), "data_offsets": [False, 4]}}),
    "an end before the start": _safetensors({"x": entry([1], 4, 0)}, bytes(4)),
    "a shape that is no list": _safetensors({"x": {**entry([1], 0, 4), "shape": 1}}, bytes(4)),
    "a negative shape": _safetensors({"x": entry([-1, -1], 0, 4)}, bytes(4)),
    "an unknown type": _safetensors({"x": entry([1], 0, 4, "F31")}, bytes(4)),
    "a type that is a list": _safetensors({"x": {**entry([1], 0, 4), "dtype": []}}, bytes(4)),
    "more bytes than the shape": _safetensors({"x": entry([1], 0, 8)}, bytes(8)),
    "tensors in the same bytes": _safetensors(
        {"x": entry([1], 0, 4), "y": entry([1], 0, 4)}, bytes(8)
    ),
    "a gap": _safetensors({"x": entry([1], 4, 8)}, bytes(8)),
    "bytes left over": _safetensors({"x": entry([1], 0, 4)}, bytes(9)),
    "bytes missing": _safetensors({"x": entry([1], 0, 4)}, bytes(3)),
    "nested without end": _safetensors(b'{"x": ' + b"[" * 100_000),
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
}


@pytest.mark.parametrize("content", SAFETENSORS.values(), ids=SAFETENSORS.keys())
def test_what_is_no_safetensors_file_is_one_line(directory: Path, content: bytes) -> None:
    (directory / "model.safetensors").write_bytes(content)
    (line,) = attempt(directory)
    assert str(directory) in line


@contextmanager
def as_nobody() -> Iterator[None]:
    """Rights bind even where the tests run as root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "."])
def test_what_may_not_be_read_is_said(directory: Path, name: str) -> None:
    for parent in (directory, *directory.parents[:2]):
        parent.chmod(0o755)
    (directory / name).chmod(0)
    with as_nobody():
        refusals = attempt(directory)
    (directory / name).chmod(0o755)
    assert refusals
    assert all("Permission denied" in line for line in refusals)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [_loop, _nowhere, _pipe, Path.mkdir])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_links_to_nowhere_pipes_and_folders_in_a_files_place(
    directory: Path, name: str, make: Callable[[Path], None]
) -> None:
    (directory / name).unlink()
    make(directory / name)
    refusals = attempt(directory)
    assert refusals
    assert all(name in line for line in refusals)


@pytest.mark.parametrize("make", [_loop, _nowhere, _pipe, Path.mkdir])
def test_they_are_no_models_either(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "m.gguf"
    make(path)
    assert len(attempt(path)) == 2


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/nowhere", "m" * 5_000, "a\0b"])
def test_other_things_are_no_models(path: str) -> None:
    assert len(attempt(Path(path))) == 2


def test_a_directory_without_weights_is_one_line(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    with pytest.raises(CheckpointNotFoundError, match=r"model\.safetensors: does not exist"):
        read_model_config(directory)


@pytest.mark.parametrize("form", ["gguf", "directory"])
def test_a_file_that_shrinks_while_it_is_read(directory: Path, gguf_file: Path, form: str) -> None:
    """A mapped file would end the process with a signal here."""
    path = gguf_file if form == "gguf" else directory / "model.safetensors"
    model = gguf_file if form == "gguf" else directory
    with open_checkpoint(model) as checkpoint:
        os.truncate(path, path.stat().st_size // 4)
        with pytest.raises(CorruptCheckpointError, match="changed while it was read"):
            LlamaModel(checkpoint, ReferenceKernels(), 8)


@pytest.mark.parametrize("form", ["gguf", "directory"])
def test_a_file_that_is_written_to_while_it_is_read(
    directory: Path, gguf_file: Path, form: str
) -> None:
    path = gguf_file if form == "gguf" else directory / "model.safetensors"
    model = gguf_file if form == "gguf" else directory
    with open_checkpoint(model) as checkpoint:
        content = path.read_bytes()
        later = time.time_ns() + 10**9
        path.write_bytes(content)
        os.utime(path, ns=(later, later))
        with pytest.raises(CorruptCheckpointError, match="changed while it was read"):
            LlamaModel(checkpoint, ReferenceKernels(), 8)


def test_a_file_put_in_its_place_changes_nothing(gguf_file: Path) -> None:
    """A download that ends with a rename leaves the open file as it was."""
    with open_checkpoint(gguf_file) as checkpoint:
        other = gguf_file.with_suffix(".new")
        other.write_bytes(b"GGUF")
        other.rename(gguf_file)
        LlamaModel(checkpoint, ReferenceKernels(), 8)
