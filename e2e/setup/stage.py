"""Runs set-up stages in parallel where they do not need each other, and says how it goes.

Standard library only: this is what a fresh machine runs first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from e2e.cluster.progress import Progress

HEARTBEAT_S = 20.0


class SetupError(Exception):
    """A stage cannot go on; the message is one line: what, where, and the remedy."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One named piece of set-up.

    Attributes:
        name: What people see.
        run: Does the work; gets a `Shell` that logs to the stage's file.
        needs: Names of stages that must be done before.
        is_done: Whether nothing is left to do (a cache hit).
        tools: Programs that the work needs.
        disk_gb: What the work fills, by directory, on top of what is there.
        progress: How far the work has come, in a few words; said where it takes long.
    """

    name: str
    run: Callable[[Shell], None]
    needs: tuple[str, ...] = ()
    is_done: Callable[[], bool] = field(default=lambda: False)
    tools: tuple[str, ...] = ()
    disk_gb: Mapping[Path, float] = field(default_factory=dict)
    progress: Callable[[], str] = field(default=lambda: "")


@dataclass(slots=True)
class Shell:
    """Runs commands for one stage; output goes to its log, children die with us."""

    log_path: Path
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def run(
        self,
        command: Sequence[str | Path],
        *,
        remedy: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Runs `command` to its end.

        Raises:
            SetupError: It failed, or the set-up is being stopped; the message holds the last
                line it printed and `remedy`.
        """
        argv = [str(part) for part in command]
        with self.log_path.open("ab") as log:
            log.write(f"\n$ {' '.join(argv)}\n".encode())
            log.flush()
            code = self._start(argv, log, env, cwd).wait()
        if code:
            raise SetupError(
                f"{Path(argv[0]).name} failed ({code}): {self._last_line()} - "
                f"{remedy} (log: {self.log_path})"
            )

    def stop(self) -> None:
        """Ends children that still run, with everything they started; none starts any more."""
        with self._lock:
            self._stopped = True
            for child in self._children:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGTERM)

    def _start(
        self, argv: list[str], log: BinaryIO, env: Mapping[str, str] | None, cwd: Path | None
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise SetupError(f"{Path(argv[0]).name} was not started - another stage failed")
            try:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})},
                    cwd=cwd,
                    start_new_session=True,
                )
            except OSError as error:
                raise SetupError(f"{argv[0]}: {error.strerror} - run the same again") from error
            self._children.append(child)
            return child

    def _last_line(self) -> str:
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "no output"


def _run_one(stage: Stage, shell: Shell, progress: Progress) -> None:
    if stage.is_done():
        progress(stage.name, "cached")
        return
    progress(stage.name, "started")
    started = time.monotonic()
    stage.run(shell)
    progress(stage.name, f"done in {time.monotonic() - started:.0f} s")


def run_stages(stages: Iterable[Stage], log_dir: Path) -> None:
    """Runs all stages, each as soon as what it needs, of what is given here, is done.

    Raises:
        SetupError: The first stage that failed; the others are stopped.
    """
    log_dir.mkdir(parents=True, exist_ok=True)
    waiting = {stage.name: stage for stage in stages}
    names = set(waiting)
    shells = {name: Shell(log_dir / f"{name}.log") for name in waiting}
    for shell in shells.values():
        shell.log_path.write_bytes(b"")
    progress, done, running = Progress(), set[str](), dict[Future[None], _Work]()
    with ThreadPoolExecutor(max_workers=max(1, len(waiting))) as pool:
        try:
            while waiting or running:
                for name in [n for n, s in waiting.items() if names & set(s.needs) <= done]:
                    stage = waiting.pop(name)
                    future = pool.submit(_run_one, stage, shells[name], progress)
                    running[future] = _Work(stage, time.monotonic())
                _collect(running, done, progress)
        except BaseException:
            for shell in shells.values():
                shell.stop()
            raise


@dataclass(frozen=True, slots=True)
class _Work:
    stage: Stage
    started_s: float

    def told(self) -> str:
        """Name, how far it is, and for how long it has been going on."""
        words = [self.stage.progress(), f"{time.monotonic() - self.started_s:.0f} s"]
        return f"{self.stage.name}: {', '.join(filter(None, words))}"


def _collect(running: dict[Future[None], _Work], done: set[str], progress: Progress) -> None:
    finished, _ = wait(running, timeout=HEARTBEAT_S, return_when=FIRST_COMPLETED)
    if not finished:
        progress("...", f"still at {'; '.join(sorted(work.told() for work in running.values()))}")
    for future in finished:
        work = running.pop(future)
        future.result()
        done.add(work.stage.name)


def exit_with(error: SetupError) -> None:
    """Prints the one line and leaves with exit code 2."""
    print(f"setup: {error}", file=sys.stderr, flush=True)
    raise SystemExit(2)
