"""What every memory plan is held against, and the plan of an engine that computes nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from paceline_engine.memory import MIB, SLACK_RATIO, MemoryPlan, mib

# Resident memory of a simulated engine's process.
SIMULATED_RUNTIME_BYTES: Final = 48 * MIB

# Of one queued prompt token: an integer and a reference to it, in either process.
QUEUED_TOKEN_BYTES: Final = 80

# The same where ids are bytes: those integers exist once.
QUEUED_BYTE_BYTES: Final = 16

# Of one KV block: its place in lists, its key, its entry in the prefix index, and whose it is:
# at most 650, measured with a salt of its own for each block.
BLOCK_ACCOUNT_BYTES: Final = 700


class InsufficientMemoryError(Exception):
    """The model and one longest request do not fit; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where a plan has to fit.

    Attributes:
        available_bytes: All there is for it.
        slack: Share of it that stays free.
    """

    available_bytes: int
    slack: float = SLACK_RATIO

    @property
    def allowed_bytes(self) -> int:
        """What may be planned."""
        return int(self.available_bytes * (1 - self.slack))

    def missing_bytes(self, total_bytes: int) -> int:
        """Memory to add until so much fits beside the slack."""
        return math.ceil(total_bytes / (1 - self.slack)) - self.available_bytes


def plan_simulated(
    *, available_bytes: int, num_kv_blocks: int, queue_bytes: int, server_bytes: int
) -> MemoryPlan:
    """The plan of an engine without weights, whose KV blocks are but numbers.

    Args:
        available_bytes: Memory that all of it may take.
        num_kv_blocks: Blocks to keep account of.
        queue_bytes: Of prompts that may wait.
        server_bytes: The server process's share.

    Raises:
        InsufficientMemoryError: Even that does not fit.
    """
    plan = MemoryPlan(
        runtime_bytes=SIMULATED_RUNTIME_BYTES,
        buffer_bytes=num_kv_blocks * BLOCK_ACCOUNT_BYTES,
        queue_bytes=queue_bytes,
        server_bytes=server_bytes,
        num_kv_blocks=num_kv_blocks,
    )
    room = Room(available_bytes=available_bytes)
    if plan.total_bytes > room.allowed_bytes:
        raise InsufficientMemoryError(refusal(plan, room, None))
    return plan


def refusal(plan: MemoryPlan, room: Room, remedy: str | None) -> str:
    """Why a plan does not fit and what to do, in one line.

    Args:
        plan: The least that was needed.
        room: Where it had to fit.
        remedy: Flag to lower, and to what; None where none suffices.
    """
    slack = f", of which {room.slack:.0%} stay free" if room.slack else ""
    missing = f"give {mib(room.missing_bytes(plan.total_bytes))} MiB more"
    return (
        f"too little memory: needed {plan.arithmetic}, usable {mib(room.available_bytes)} MiB"
        f"{slack}; {f'lower {remedy} or {missing}' if remedy else missing}"
    )
