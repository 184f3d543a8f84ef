"""How deeply nested what is read may be.

An API server stores objects of up to 10,000 levels, and the one watch of all must outlive each.
Python refuses at 1,000; but each level it may descend takes some of the thread's stack, and
beyond that the process would be killed.
"""

from __future__ import annotations

import resource
import sys

NEEDED = 22_000
"""To read 10,000 levels and to copy them, which takes two calls for each."""
STACK_PER_LEVEL = 350
"""Bytes; comparing nested objects takes the most."""


def allow() -> int:
    """Let this process descend as deeply as is needed, and as its stack can bear; returns that."""
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    bearable = NEEDED if stack == resource.RLIM_INFINITY else stack // STACK_PER_LEVEL
    levels = max(sys.getrecursionlimit(), min(NEEDED, bearable))
    sys.setrecursionlimit(levels)
    return levels
