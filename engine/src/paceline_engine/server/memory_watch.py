"""What server and engine hold of the memory that was planned for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paceline_engine.memory import MemoryLimit, PlannedMemory

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """Memory at one moment, in bytes.

    Attributes:
        server_bytes: Resident in the server process.
        engine_bytes: Resident in the engine process; 0 before it starts and after its end.
        available_bytes: Left to the nearest limit.
        headroom_bytes: What stays of it once all that is planned is in use. Negative: it
            will not suffice, as others have taken memory since the start.
    """

    server_bytes: int
    engine_bytes: int
    available_bytes: int
    headroom_bytes: int


class MemoryWatch:
    """Holds the plan against what is measured.

    Args:
        planned: Plan and limit of the start.
        look: Reads the nearest limit as it stands now.
        resident: Reads the resident bytes of a process; None for this one.
    """

    def __init__(
        self,
        planned: PlannedMemory,
        look: Callable[[], MemoryLimit],
        resident: Callable[[int | None], int] | None = None,
    ) -> None:
        self.planned = planned
        self._look = look
        self._resident = resident or resident_bytes

    def read(self, engine_pid: int | None) -> MemoryReading:
        """Measures now.

        Args:
            engine_pid: Process id of the engine; None where there is none.
        """
        server = self._resident(None)
        engine = 0 if engine_pid is None else self._resident(engine_pid)
        available = self._look().available_bytes
        still_to_take = max(0, self.planned.plan.total_bytes - server - engine)
        return MemoryReading(
            server_bytes=server,
            engine_bytes=engine,
            available_bytes=available,
            headroom_bytes=available - still_to_take,
        )


def resident_bytes(pid: int | None = None) -> int:
    """Resident memory of a process, this one by default; 0 where there is no such process."""
    path = Path("/proc") / ("self" if pid is None else str(pid)) / "statm"
    try:
        return int(path.read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
