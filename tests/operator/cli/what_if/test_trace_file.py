from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline_operator.cli.what_if.trace_file import read_trace, trace_paths, trace_tape
from paceline_operator.simulator.loads.trace import TraceError
from paceline_operator.simulator.request import Request

TEXT = b"arrival_s,prompt_tokens,output_tokens\n0.5,10,3\n2.5,11,4\n"
ROWS = [Request(0.5, 10, 3), Request(2.5, 11, 4)]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TEXT),
        ("a.csv.gz", gzip.compress(TEXT)),
        ("crlf.csv", TEXT.replace(b"\n", b"\r\n")),
        ("cut.csv", TEXT.rstrip()),
    ],
)
def test_a_file_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    assert list(read_trace(write(tmp_path / name, content))) == ROWS


def test_a_tape_plays_a_file_again(tmp_path: Path) -> None:
    tape = trace_tape(write(tmp_path / "a.csv", TEXT))
    assert tape.span_s == 2.5 + 2.5
    assert [list(tape.play()) for _ in range(2)] == [ROWS, ROWS]


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


MANY = b"arrival_s,prompt_tokens,output_tokens\n" + b"".join(
    b"%d.%03d,%d,7\n" % (n, n * 7919 % 1000, 1 + n * 104729 % 4096) for n in range(5000)
)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        pytest.param("a.csv", b"\x00\xff" * 99, ":1: the header is ", id="binary"),
        pytest.param("a.csv", TEXT + b"3,\xff1,1\n", r":4: prompt_tokens is '\\xff1'", id="byte"),
        pytest.param(
            "a.csv", gzip.compress(TEXT), ":1: it is compressed by gzip", id="wrong-ending"
        ),
        pytest.param("a.csv.gz", TEXT, ":1: the compressed data cannot", id="not-compressed"),
        pytest.param(
            "a.csv.gz", truncated(gzip.compress(MANY)), "the compressed data cannot", id="truncated"
        ),
        pytest.param("a.csv", b"x" * (1 << 21), ":1: the header is 'xxx", id="no-line-ends"),
        pytest.param("a.csv.gz", b"", ":1: the header is ''", id="empty"),
    ],
)
def test_damage_is_said_in_one_line(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(TraceError) as caught:
        list(read_trace(path))
    text = str(caught.value)
    assert text.startswith(str(path))
    assert what in text
    assert "\n" not in text
    assert "; " in text


def test_a_flipped_bit_in_compressed_data_is_found(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(MANY))
    content[len(content) // 2] ^= 1
    with pytest.raises(TraceError):
        list(read_trace(write(tmp_path / "a.csv.gz", bytes(content))))


@pytest.mark.parametrize("open_it", [lambda path: list(read_trace(path)), trace_tape, trace_paths])
def test_a_missing_file_is_said(tmp_path: Path, open_it: Callable[[Path], object]) -> None:
    path = tmp_path / "none.csv"
    with pytest.raises(TraceError, match=r"none\.csv: No such file or directory; name "):
        open_it(path)


def test_a_trace_without_length_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", TEXT.splitlines(keepends=True)[0] + b"0,1,1\n0,1,1\n")
    with pytest.raises(TraceError, match="all requests arrive at once"):
        trace_tape(path)


def test_a_folder_lists_its_traces(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no file ends in \.csv or \.csv\.gz"):
        trace_paths(tmp_path)
    for name in ("b.csv", "a.csv.gz", "README.md", "c.gz"):
        write(tmp_path / name, b"")
    assert [path.name for path in trace_paths(tmp_path)] == ["a.csv.gz", "b.csv"]


def test_a_trace_is_streamed(tmp_path: Path) -> None:
    """Held whole, these requests would take more than five megabytes."""
    rows = b"".join(b"%d,100,10\n" % n for n in range(30_000))
    path = write(tmp_path / "a.csv.gz", gzip.compress(TEXT.splitlines(True)[0] + rows, 1))
    tracemalloc.start()
    count = sum(1 for _ in read_trace(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 30_000
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"arrival_s\n"), r"it is compressed by gzip.*name it \.csv\.gz"),
        (b"\xef\xbb\xbfarrival_s\n", "byte order mark.*save it as UTF-8 without one"),
        ("arrival_s\n".encode("utf-16"), "byte order mark.*save it as UTF-8 without one"),
    ],
)
def test_a_beginning_that_nobody_sees_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said):
        list(read_trace(path))
