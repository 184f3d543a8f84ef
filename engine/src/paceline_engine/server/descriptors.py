"""File descriptors: as many as the system grants, and how many connections they allow."""

from __future__ import annotations

import resource
from typing import Final

ENOUGH: Final = 65_536  # descriptors that are asked for; some systems grant a thousand million
OWN: Final = 128  # files, pipes and sockets beside the ports' connections
MOST_CONNECTIONS: Final = 4096  # of one port: some 30 MB while they idle


def raise_limit() -> int:
    """Raises this process's soft limit towards the hard one; returns the limit then in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ENOUGH if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def connections_each(limit: int, ports: int) -> int:
    """Connections that each port may have, so that no port takes the descriptors of another.

    Half of what there is stays free for those that have come and are still to be told so.

    Args:
        limit: Descriptors of the process.
        ports: Ports that share them.
    """
    return max(1, min(MOST_CONNECTIONS, (limit - OWN) // (2 * ports)))
