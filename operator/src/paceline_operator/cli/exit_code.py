"""How the plug-in ends, besides the 0 of all being well and the answers of single commands."""

from __future__ import annotations

FAILED = 1
UNANSWERED = 2
"""Of commands whose answer itself may be a 1, as with `kubectl diff`."""
INTERRUPTED = 130
