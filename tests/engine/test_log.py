"""`--log-level` holds for all that both processes write, and nothing they write has contents."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support import tiny_files
from tests.support.engine_server import END_S, START_S, eventually
from tests.support.leash import leashed

SEVERITIES = ["DEBUG", "INFO", "WARNING", "ERROR"]
LINE = re.compile(r"(paceline-engine|engine): ([A-Z]+): ")
SECRET = "Xyzzy-Plugh"
NOISY = """
import asyncio, logging, sys, threading, warnings
from paceline_engine import log
log.configure(sys.argv[1], "test")
chatty = logging.getLogger("chatty.library")
chatty.setLevel(logging.DEBUG)
chatty.addHandler(logging.StreamHandler())
for own in ("paceline_engine.server.x", "chatty.library", "uvicorn.error", "asyncio"):
    for severity in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger(own), severity)("said by %s", own)
warnings.warn("a warning")
def fail():
    secret = "SECRET"
    raise ValueError(secret)
try:
    fail()
except ValueError:
    logging.getLogger("chatty.other").exception("failed")
thread = threading.Thread(target=fail)
thread.start(); thread.join()
async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log.log_loop_error)
    loop.call_soon(lambda given: fail(), "SECRET")
    async def failing(): fail()
    task = asyncio.create_task(failing())
    await asyncio.sleep(0.01)
    del task
    await asyncio.sleep(0.01)
asyncio.run(main())
class Failing:
    def __repr__(self): return "SECRET"
    def __del__(self): fail()
Failing()
fail()
""".replace("SECRET", SECRET)


@pytest.fixture
def broken_values(tmp_path: Path) -> Path:
    (tmp_path / "tunables.json").write_text("{")
    return tmp_path


@contextlib.contextmanager
def served(level: str, broken_values: Path, *device: str) -> Iterator[subprocess.Popen[str]]:
    ports = ("--host=127.0.0.1", "--port=0", "--health-port=0", "--admin-port=0")
    flags = (f"--tunables-dir={broken_values}", f"--log-level={level}", *device)
    command = [sys.executable, "-m", "paceline_engine", "serve", *ports, *flags]
    process = subprocess.Popen(leashed(command), stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def listening(process: subprocess.Popen[str]) -> list[int]:
    """Its ports, for nothing is said of them at higher levels."""
    found = psutil.Process(process.pid).net_connections(kind="tcp4")
    return [each.laddr.port for each in found if each.status == psutil.CONN_LISTEN]


def is_at(port: int, path: str) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def heard_until_killed(process: subprocess.Popen[str]) -> tuple[dict[str, set[str]], list[str]]:
    """What each process says once it serves, knows an odd field, and its engine is killed.

    Returns:
        Severities of both processes, and the engine's command line.
    """
    eventually(lambda: any(is_at(each, "/readyz") for each in listening(process)), START_S)
    (api,) = (each for each in listening(process) if is_at(each, "/v1/models"))
    body = {"prompt": "a", "max_tokens": 1, "misspelt": 1}
    answer = httpx.post(f"http://127.0.0.1:{api}/v1/completions", json=body, timeout=60)
    assert answer.status_code == 200
    (engine,) = (
        each
        for each in psutil.Process(process.pid).children()
        if "paceline_engine.engine" in each.cmdline()
    )
    command = engine.cmdline()
    os.kill(engine.pid, signal.SIGKILL)
    _, written = process.communicate(timeout=END_S)
    heard: dict[str, set[str]] = {"paceline-engine": set(), "engine": set()}
    for line in written.splitlines():
        found = LINE.match(line)
        assert found, line
        heard[found[1]].add(found[2])
    return heard, command


@pytest.mark.parametrize("level", SEVERITIES)
def test_the_server_obeys_and_tells_its_engine(level: str, broken_values: Path) -> None:
    simulated = ("--device=simulated", "--step-coefficients=base_ms=1,per_token_ms=0")
    with served(level.lower(), broken_values, *simulated) as process:
        heard, command = heard_until_killed(process)
    assert heard["paceline-engine"] == set(SEVERITIES[SEVERITIES.index(level) :])
    assert command[-1] == level.lower()


@pytest.mark.behaviour(
    "every process and logger of the engine obeys --log-level",
    report="own finding: the engine process wrote at a level of its own",
)
def test_the_engine_obeys(tmp_path: Path, broken_values: Path) -> None:
    """Its narrow heads are worth a warning, and how it computes worth an info."""
    model = tiny_files.write_directory(tmp_path / "model")
    with served("warning", broken_values, f"--model={model}", "--device=cpu") as process:
        heard, _ = heard_until_killed(process)
    assert heard == {"paceline-engine": {"WARNING", "ERROR"}, "engine": {"WARNING"}}


def noisy(level: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", NOISY, level],
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize("level", SEVERITIES)
def test_libraries_obey_whatever_handlers_they_bring(level: str) -> None:
    """They are heard from warnings on, and never below the level."""
    written = noisy(level.lower())
    severities = SEVERITIES[SEVERITIES.index(level) :]
    for name, least in (("paceline_engine.server.x", "DEBUG"), ("uvicorn.error", "WARNING")):
        heard = re.findall(rf"test: (\w+): said by {re.escape(name)}", written)
        assert heard == [
            each for each in severities if each in SEVERITIES[SEVERITIES.index(least) :]
        ]
    own_handler = re.findall(r"(?m)^said by chatty.library", written)
    assert len(own_handler) == len(severities)
    assert ("a warning" in written) == (level != "ERROR")


@pytest.mark.behaviour(
    "an exception is logged as its kind and places, never with its text, wherever it surfaces",
    report="prompts in tracebacks, and in what the event loop says of callbacks that failed",
)
def test_no_exception_shows_what_it_is_about() -> None:
    written = noisy("debug")
    assert SECRET not in written.replace(f'secret = "{SECRET}"', "")
    # handled, in a thread, a callback, a task, a finaliser, uncaught
    assert written.count("ValueError") == 6
    assert "in fail" in written
