"""Stages run in order of need, side by side where they can, and stop as one."""

import os
import signal
import threading
from pathlib import Path

import pytest

from e2e.interruption import raised
from e2e.setup import stage as stage_module
from e2e.setup.stage import SetupError, Shell, Stage, run_stages


def recorder(names: list[str], name: str) -> Stage:
    return Stage(name, lambda _shell: names.append(name))


def test_a_stage_waits_for_what_it_needs(tmp_path: Path) -> None:
    ran: list[str] = []
    stages = [
        Stage("c", lambda _: ran.append("c"), needs=("b",)),
        Stage("b", lambda _: ran.append("b"), needs=("a",)),
        recorder(ran, "a"),
    ]
    run_stages(stages, tmp_path)
    assert ran == ["a", "b", "c"]


def test_a_need_that_has_no_work_is_not_waited_for(tmp_path: Path) -> None:
    ran: list[str] = []
    run_stages([Stage("b", lambda _: ran.append("b"), needs=("absent",))], tmp_path)
    assert ran == ["b"]


def test_stages_without_needs_run_side_by_side(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=20)
    run_stages([Stage(name, lambda _: both.wait() and None) for name in ("a", "b")], tmp_path)
    assert not both.broken


def test_a_done_stage_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[str] = []
    run_stages([Stage("a", lambda _: ran.append("a"), is_done=lambda: True)], tmp_path)
    assert ran == []
    assert "cached" in capsys.readouterr().err


def test_a_failure_is_one_line_with_the_last_output_and_the_remedy(tmp_path: Path) -> None:
    def run(shell: Shell) -> None:
        shell.run(["sh", "-c", "echo first; echo last >&2; exit 3"], remedy="do that")

    with pytest.raises(SetupError) as caught:
        run_stages([Stage("a", run)], tmp_path)
    assert str(caught.value) == f"sh failed (3): last - do that (log: {tmp_path / 'a.log'})"


def test_an_absent_program_is_one_line(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "log")
    with pytest.raises(SetupError, match="/no/such/program: No such file"):
        shell.run(["/no/such/program"], remedy="x")


def test_a_failure_ends_the_children_of_the_others(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)

    def long(shell: Shell) -> None:
        shell.run(["sh", "-c", f"echo $$ > {started}; sleep 600"], remedy="none")

    def failing(_shell: Shell) -> None:
        started.read_text()
        raise SetupError("no")

    with pytest.raises(SetupError, match=r"^no$"):
        run_stages([Stage("long", long), Stage("failing", failing)], tmp_path)


def test_a_stopped_stage_starts_no_further_child(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "log")
    shell.stop()
    with pytest.raises(SetupError, match="touch was not started"):
        shell.run(["touch", str(tmp_path / "made")], remedy="x")
    assert not (tmp_path / "made").exists()


def test_an_interruption_ends_the_children(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    ended: list[str] = []
    main = threading.get_ident()

    def long(shell: Shell) -> None:
        try:
            shell.run(["sh", "-c", f"echo on > {started}; sleep 600"], remedy="none")
        except SetupError as error:
            ended.append(str(error))
            raise

    def interrupt() -> None:
        started.read_text()
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), raised():
        run_stages([Stage("long", long)], tmp_path)
    thread.join()
    assert "failed (-15)" in ended[0]


def test_what_takes_long_says_how_far_it_is_and_since_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_module, "HEARTBEAT_S", 0.01)
    told = threading.Event()

    def progress() -> str:
        told.set()
        return "1 of 4 compiled"

    run_stages([Stage("a", lambda _: told.wait(60) and None, progress=progress)], tmp_path)
    assert "still at a: 1 of 4 compiled, 0 s" in capsys.readouterr().err
