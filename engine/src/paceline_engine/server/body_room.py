"""Memory for bodies that are read or worked on: so many bytes for all calls together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from paceline_engine.server.errors import UnavailableError
from paceline_engine.server.metric_names import BODIES

ROOM_BYTES: Final = 32 * 1024 * 1024
FREE_BYTES: Final = 64 * 1024
"""Of each body, as much as a connection buffers anyway: large ones never shut out ordinary ones."""
_COPIES: Final = 2  # of the one body that is being parsed: as it came, and what becomes of it


def room_bytes(max_body_bytes: int) -> int:
    """The room where bodies may be so large: one always fits into it while no other is there."""
    return max(ROOM_BYTES, max_body_bytes)


def planned_bytes(max_body_bytes: int) -> int:
    """What a memory plan has to provide."""
    return room_bytes(max_body_bytes) + _COPIES * max_body_bytes


class Held:
    """What one body takes of the room.

    Args:
        room: The room.
    """

    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self._size = 0
        self._taken = 0

    def check(self, size: int) -> None:
        """Whether a body of that size would fit now.

        Raises:
            UnavailableError: It would not.
        """
        self._room.check(size - FREE_BYTES)

    def add(self, size: int) -> None:
        """Takes room for some more of the body.

        Raises:
            UnavailableError: There is none left.
        """
        self._size += size
        more = max(0, self._size - FREE_BYTES) - self._taken
        self._room.check(more)
        self._room.held += more
        self._taken += more

    def release(self) -> None:
        """Gives everything back."""
        self._room.held -= self._taken
        self._taken = 0


class BodyRoom:
    """The room.

    Args:
        limit: Bytes of it.

    Attributes:
        held: Bytes taken.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0

    @contextmanager
    def hold(self) -> Iterator[Held]:
        """Takes room for a body while it is read and worked on."""
        held = Held(self)
        try:
            yield held
        finally:
            held.release()

    def check(self, size: int) -> None:
        """Whether so much more fits.

        Raises:
            UnavailableError: It does not.
        """
        if self.held + size > self._limit:
            raise UnavailableError(
                f"the bodies of other calls that are being read take {self.held} bytes and all "
                f"may take {self._limit}; retry, another replica may have room",
                code=BODIES,
            )
