"""The engine as a process of its own: how it starts, speaks, and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
import zmq

from paceline_engine.config import Device, EngineConfig
from paceline_engine.engine.process import EXIT_CANNOT_LOAD, one_line
from paceline_engine.kvcache.integrity import KvIntegrityError
from paceline_engine.message import (
    AddRequest,
    EngineFailed,
    FromEngine,
    Ready,
    Shutdown,
    StepReport,
    ToEngine,
)
from paceline_engine.request import Request
from paceline_engine.runner.factory import RunnerLoadError
from paceline_engine.sampling import SamplingParams
from tests.support.engine_config import engine_config

TIMEOUT_S = 20
MODULE = ["-m", "paceline_engine.engine"]
NAMES_MODULES = """
import sys
from paceline_engine.engine.__main__ import main
code = main(*sys.argv[1:])
print("torch" in sys.modules, "numpy" in sys.modules)
raise SystemExit(code)
"""
FAILS = """
import sys
from paceline_engine.engine.__main__ import main
from paceline_engine.runner.simulated import SimulatedRunner
def execute(runner, output):
    raise ValueError(f"cannot compute {output.chunks}, a prompt of Xyzzy-Plugh")
SimulatedRunner.execute = execute
main(*sys.argv[1:])
"""
PARENT = """
import subprocess, sys, os
engine = subprocess.Popen([sys.executable, "-m", "paceline_engine.engine", sys.argv[1],
                           str(os.getpid())], stdin=subprocess.PIPE)
engine.stdin.write(sys.stdin.buffer.read())
engine.stdin.close()
print(engine.pid, flush=True)
engine.wait()
"""


class Peer:
    """The server's end of the socket, in plain blocking calls."""

    def __init__(self, folder: Path) -> None:
        self.address = f"ipc://{folder}/engine.sock"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.linger = 0
        self._socket.rcvtimeo = TIMEOUT_S * 1000
        self._socket.bind(self.address)

    def send(self, message: ToEngine) -> None:
        self._socket.send(msgspec.msgpack.encode(message))

    def receive(self) -> FromEngine:
        return msgspec.msgpack.decode(self._socket.recv(), type=FromEngine)

    def close(self) -> None:
        self._context.destroy()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    made = Peer(tmp_path)
    yield made
    made.close()


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start(
    processes: list[subprocess.Popen[bytes]],
    code: list[str],
    arguments: list[str],
    config: EngineConfig,
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, *code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    processes.append(process)
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(config))
    process.stdin.close()
    process.stdin = None
    return process


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_simulated_engine_serves_without_torch_and_shuts_down_cleanly(
    peer: Peer, processes: list[subprocess.Popen[bytes]]
) -> None:
    arguments = [peer.address, str(os.getpid())]
    process = start(processes, ["-c", NAMES_MODULES], arguments, engine_config())
    assert peer.receive() == Ready(num_kv_blocks=64, block_size=16)
    sampling = SamplingParams(max_tokens=2)
    peer.send(AddRequest(Request(request_id=1, prompt_token_ids=(1, 2), sampling=sampling)))
    reports = [peer.receive(), peer.receive()]
    assert [len(report.outputs) for report in reports if isinstance(report, StepReport)] == [1, 1]
    peer.send(Shutdown())
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (out, err) == (b"False False\n", b"")
    assert process.returncode == 0


def test_a_simulated_engine_is_small(peer: Peer, processes: list[subprocess.Popen[bytes]]) -> None:
    process = start(processes, MODULE, [peer.address, str(os.getpid())], engine_config())
    assert isinstance(peer.receive(), Ready)
    rss_mib = psutil.Process(process.pid).memory_info().rss / 2**20
    print(f"simulated engine: {rss_mib:.1f} MiB resident")
    assert rss_mib < 60


def test_it_beats_while_it_loads(peer: Peer, processes: list[subprocess.Popen[bytes]]) -> None:
    config = engine_config(load_seconds=2.5)
    start(processes, MODULE, [peer.address, str(os.getpid())], config)
    received = []
    while not isinstance(message := peer.receive(), Ready):
        received.append(message)
    assert len(received) >= 2
    for beat in received:
        assert isinstance(beat, StepReport)
        assert (beat.stats, beat.outputs, beat.state.kv_blocks_free) == (None, (), 64)
        assert beat.state.max_num_batched_tokens == 512


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": Device.CUDA}, "device 'cuda' has no runner here: use cpu or simulated"),
        ({"step_time_law": None}, "the simulated device needs a step-time law"),
        (
            {"device": Device.CPU, "model_path": "/no/such/model.gguf"},
            "model /no/such/model.gguf: does not exist",
        ),
    ],
)
def test_what_cannot_load_is_told_in_one_line(
    peer: Peer,
    processes: list[subprocess.Popen[bytes]],
    changes: dict[str, object],
    said: str,
) -> None:
    arguments = [peer.address, str(os.getpid())]
    process = start(processes, MODULE, arguments, engine_config(**changes))
    while isinstance(message := peer.receive(), StepReport):
        pass  # signs of life while torch loads
    assert isinstance(message, EngineFailed)
    assert message.reason.startswith(said)
    assert "\n" not in message.reason
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (EXIT_CANNOT_LOAD, b"")


@pytest.mark.behaviour(
    "what an engine dies of is told by its kind: texts of others' errors may hold a prompt",
    report="own finding: the text of a runner's error was in the log and in every caller's 503",
)
def test_a_runners_error_is_told_without_what_it_worked_on(
    peer: Peer, processes: list[subprocess.Popen[bytes]]
) -> None:
    arguments = [peer.address, str(os.getpid()), "debug"]
    process = start(processes, ["-c", FAILS], arguments, engine_config())
    assert isinstance(peer.receive(), Ready)
    prompt = (7351, 7352, 7353)
    peer.send(AddRequest(Request(request_id=1, prompt_token_ids=prompt, sampling=SamplingParams())))
    while isinstance(message := peer.receive(), StepReport):
        pass
    assert message == EngineFailed("the engine failed: ValueError")
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert b"in execute" in err
    assert b"Xyzzy-Plugh" not in err
    assert b"7351" not in err


def test_it_dies_with_its_parent(peer: Peer, processes: list[subprocess.Popen[bytes]]) -> None:
    parent = start(processes, ["-c", PARENT], [peer.address], engine_config())
    assert parent.stdout is not None
    engine_pid = int(parent.stdout.readline())
    assert isinstance(peer.receive(), Ready)
    assert not is_gone(engine_pid)
    parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + TIMEOUT_S
    while not is_gone(engine_pid):
        assert time.monotonic() < deadline, "the engine outlived its parent"
        time.sleep(0.01)


def test_it_does_not_start_for_a_parent_that_is_gone(
    peer: Peer, processes: list[subprocess.Popen[bytes]]
) -> None:
    process = start(processes, MODULE, [peer.address, "1"], engine_config())
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert err == b"the server process is gone\n"


def test_signals_to_the_whole_group_leave_the_end_to_the_server(
    peer: Peer, processes: list[subprocess.Popen[bytes]]
) -> None:
    process = start(processes, MODULE, [peer.address, str(os.getpid())], engine_config())
    assert isinstance(peer.receive(), Ready)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert isinstance(peer.receive(), StepReport)
    peer.send(Shutdown())
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RunnerLoadError("no such\n  file"), "no such file"),
        (KvIntegrityError("a\nb"), "KvIntegrityError: a b"),
        (ValueError("what it worked on"), "ValueError"),
        (KeyError("what it worked on"), "KeyError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_one_line(error: BaseException, line: str) -> None:
    assert one_line(error) == line
