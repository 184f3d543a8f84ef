"""What ends a run early: Ctrl-C, a service manager's SIGTERM, a closed terminal's SIGHUP."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def raised() -> Iterator[None]:
    """Raises KeyboardInterrupt for the first of them, so that every clean-up runs.

    Later ones are ignored: they must not cut short the clean-up that the first began.
    """
    with _handling(_raise):
        yield


@contextmanager
def held_off() -> Iterator[None]:
    """Ignores them, also in child processes: a clean-up cut short leaves what nobody looks for."""
    with _handling(signal.SIG_IGN):
        yield


@contextmanager
def deferred() -> Iterator[None]:
    """Lets the block come to its end, then raises KeyboardInterrupt where one came meanwhile."""
    came: list[int] = []
    with _handling(lambda number, _frame: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt


@contextmanager
def _handling(handler: signal._HANDLER) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Signals arrive in the main thread alone, and only it may set handlers.
        return
    old = {number: signal.signal(number, handler) for number in _numbers()}
    try:
        yield
    finally:
        for number, before in old.items():
            signal.signal(number, before)


def _numbers() -> list[signal.Signals]:
    """Those of them that count; `nohup` has a closed terminal ignored from the start."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in NUMBERS if not (ignored and number == signal.SIGHUP)]


def _raise(_number: int, _frame: FrameType | None) -> None:
    for number in _numbers():
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
