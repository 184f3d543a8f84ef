"""Starts that cannot work: one clear line on stderr, exit code 2."""

from __future__ import annotations

import gc
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from paceline_engine import log
from paceline_engine.main import main, prepare
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import OptionError, parse
from paceline_engine.start_error import StartError

SIMULATED = ["--device=simulated", "--port=0", "--health-port=0", "--admin-port=0"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline_engine", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("paceline-engine: ")
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["serve"]),
        (["launch"], ["launch"]),
        (["serve", "--nonsense"], ["--nonsense"]),
        (["serve", "--port=x"], ["--port", "'x'"]),
        (["serve", "--port=70000"], ["--port", "70000"]),
        (["serve", "--device=abacus"], ["--device", "abacus", "simulated"]),
        (["serve", "--drain-seconds=-1"], ["--drain-seconds"]),
        (["serve", "--kv-cache-memory=lots"], ["--kv-cache-memory", "lots"]),
        (["serve", "--log-level=loud"], ["--log-level", "loud"]),
        (["serve"], ["--model"]),
        (["serve", "--device=cuda", "--model=x"], ["cuda"]),
        (["serve", "--device=simulated", "--profile=nope"], ["--profile", "nope", "llama"]),
        (["serve", *SIMULATED, "--step-coefficients=a=1"], ["--step-coefficients", "'a'"]),
        (["serve", *SIMULATED, "--step-coefficients=base_ms=1"], ["per_token_ms"]),
        (
            ["serve", *SIMULATED, "--step-coefficients=base_ms=-1,per_token_ms=0"],
            ["base_ms=-1"],
        ),
        (["serve", *SIMULATED, "--max-num-batched-tokens=8"], ["--max-num-batched-tokens", "16"]),
        (
            ["serve", *SIMULATED, "--max-num-batched-tokens=64", "--initial-batched-tokens=65"],
            ["--initial-batched-tokens", "64"],
        ),
        (["serve", *SIMULATED, "--kv-cache-memory=1Mi"], ["too little memory"]),
        (["serve", *SIMULATED, "--tenant-weights=a=2"], ["--trust-tenant-header on"]),
        (
            [
                "serve",
                *SIMULATED,
                "--prefix-caching=off",
                "--prefix-cache-retention-seconds=9",
            ],
            ["--prefix-caching off"],
        ),
        (["serve", *SIMULATED, "--admin-token-file=/nowhere/token"], ["/nowhere/token"]),
        (["serve", *SIMULATED, "--api-key-file=/nowhere/keys"], ["/nowhere/keys"]),
        (["serve", *SIMULATED, "--host=256.1.1.1"], ["256.1.1.1"]),
        (["serve", "--model=/nowhere/model.gguf"], ["/nowhere/model.gguf"]),
        (["serve", "--device=simulated", "--model=/nowhere/m.gguf"], ["/nowhere/m.gguf"]),
    ],
)
def test_bad_starts_are_explained(arguments: list[str], words: list[str]) -> None:
    """In this process, for speed; `test_exit_code_and_line` runs the command itself."""
    with pytest.raises((OptionError, StartError)) as caught:
        prepare(parse(arguments))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--nonsense"], ["--nonsense"]),
        (["serve", "--model=/nowhere/model.gguf"], ["/nowhere/model.gguf"]),
        (["serve", *SIMULATED, "--kv-cache-memory=1Mi"], ["too little memory"]),
    ],
)
def test_exit_code_and_line(arguments: list[str], words: list[str]) -> None:
    assert_refused(run(*arguments), *words)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64])
@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_broken_model_file(tmp_path: Path, content: bytes, device: str) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    with pytest.raises(StartError, match=re.escape(str(path))) as caught:
        prepare(parse(["serve", f"--model={path}", f"--device={device}"]))
    assert "\n" not in str(caught.value)


def test_empty_directory_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=re.escape(str(tmp_path))):
        prepare(parse(["serve", f"--model={tmp_path}"]))


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("flag", ["--port", "--health-port", "--admin-port"])
def test_used_port(flag: str, taken: int) -> None:
    with pytest.raises(StartError, match="in use") as caught:
        prepare(parse(["serve", *SIMULATED, "--host=127.0.0.1", f"{flag}={taken}"]))
    assert f"127.0.0.1:{taken}" in str(caught.value)
    assert flag in str(caught.value)


def test_used_port_of_the_command(taken: int) -> None:
    done = run("serve", *SIMULATED, "--host=127.0.0.1", f"--port={taken}")
    assert_refused(done, "--port", "in use")


def test_help_lists_every_flag() -> None:
    done = run("serve", "--help")
    assert done.returncode == 0
    for flag in Flag:
        assert flag in done.stdout


@pytest.mark.behaviour(
    "no collection of garbage looks at what start-up made while streams run",
    report="own finding: a full collection in the server held up every stream for 74 ms",
)
def test_start_up_is_out_of_the_collectors_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []

    def run(serving: Coroutine[Any, Any, int]) -> int:
        serving.close()
        frozen.append(gc.get_freeze_count())
        return 0

    monkeypatch.setattr(uvloop, "run", run)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(log, "configure", lambda *_: None)
    started = prepare(parse(["serve", *SIMULATED]))
    monkeypatch.setattr("paceline_engine.main.prepare", lambda _options: started)
    gc.unfreeze()
    try:
        assert main(["serve", *SIMULATED]) == 0
        assert frozen[0] > 10_000
    finally:
        gc.unfreeze()
        for bound in (started.ports.api, started.ports.health, started.ports.admin):
            bound.close()
