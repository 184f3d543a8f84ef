"""What ends a run early: Ctrl-C, a service manager's SIGTERM, a closed terminal's SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def raised() -> Iterator[None]:
    """Raises KeyboardInterrupt for each of them, so that every clean-up runs."""
    with _handling(_raise):
        yield


@contextmanager
def held_off() -> Iterator[None]:
    """Ignores them, also in child processes: a clean-up cut short leaves what nobody looks for."""
    with _handling(signal.SIG_IGN):
        yield


@contextmanager
def _handling(handler: signal._HANDLER) -> Iterator[None]:
    old = [signal.signal(number, handler) for number in NUMBERS]
    try:
        yield
    finally:
        for number, before in zip(NUMBERS, old, strict=True):
            signal.signal(number, before)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
