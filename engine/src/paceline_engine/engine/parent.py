"""An engine never outlives the server that started it."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with(parent_pid: int) -> None:
    """Has the kernel kill this process when its parent ends, however it ends.

    The parent is the thread that started this process, so that has to be one that lives as
    long as the server: prctl(2), PR_SET_PDEATHSIG.

    Raises:
        SystemExit: The parent had gone before the kernel was asked.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot follow the parent process: {os.strerror(code)}")
    if os.getppid() != parent_pid:
        raise SystemExit("the server process is gone")


def ignore_terminal_signals() -> None:
    """Leaves the end to the server: a signal to the whole group must not cut its drain."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
