"""Loopback addresses for servers whose ports are fixed."""

from __future__ import annotations

import os


def loopback(host: int) -> str:
    """An address of this process alone: another run of the tests may use the same port.

    Args:
        host: 1 to 254, the caller's own choice.
    """
    return f"127.{1 + os.getpid() // 250 % 250}.{1 + os.getpid() % 250}.{host}"
