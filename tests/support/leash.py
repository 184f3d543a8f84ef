"""Keeps a test's processes from outliving it."""

from __future__ import annotations

from collections.abc import Sequence

LEASH = ("setpriv", "--pdeathsig", "KILL")


def leashed(command: Sequence[str]) -> list[str]:
    """The command, killed by the kernel once whoever starts it is dead, however that came.

    It keeps its process id: setpriv becomes the command. Whoever starts it is a thread to the
    kernel, so one that is to live longer than that thread must be started by another.
    """
    return [*LEASH, *command]
