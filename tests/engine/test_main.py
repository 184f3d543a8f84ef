"""Starts that cannot work: one clear line on stderr, exit code 2."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paceline_engine.server.flags import Flag

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
        (["serve", *SIMULATED, "--admin-token-file=/nowhere/token"], ["/nowhere/token"]),
        (["serve", *SIMULATED, "--api-key-file=/nowhere/keys"], ["/nowhere/keys"]),
        (["serve", *SIMULATED, "--host=256.1.1.1"], ["256.1.1.1"]),
        (["serve", "--model=/nowhere/model.gguf"], ["/nowhere/model.gguf"]),
        (["serve", "--device=simulated", "--model=/nowhere/m.gguf"], ["/nowhere/m.gguf"]),
    ],
)
def test_bad_starts(arguments: list[str], words: list[str]) -> None:
    assert_refused(run(*arguments), *words)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64])
def test_broken_model_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    assert_refused(run("serve", f"--model={path}"), str(path))


def test_empty_directory_is_no_model(tmp_path: Path) -> None:
    assert_refused(run("serve", f"--model={tmp_path}"), str(tmp_path))


@pytest.mark.parametrize("flag", ["--port", "--health-port", "--admin-port"])
def test_used_port(flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", *SIMULATED, "--host=127.0.0.1", f"{flag}={port}")
    assert_refused(done, flag, str(port), "in use")


def test_help_lists_every_flag() -> None:
    done = run("serve", "--help")
    assert done.returncode == 0
    for flag in Flag:
        assert flag in done.stdout
