"""Values of `--max-queue-seconds` that are no number."""

from __future__ import annotations

from enum import StrEnum


class QueueRule(StrEnum):
    """How the limit is found."""

    SLO = "slo"
