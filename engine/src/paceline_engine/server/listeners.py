"""Sockets and HTTP servers of the three ports, all on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator
from typing import Final, cast

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from paceline_engine.server.connection import IDLE_CONNECTION_S, ClientConnection
from paceline_engine.server.descriptors import MOST_CONNECTIONS
from paceline_engine.server.settings import WRITE_DEADLINE_S

BACKLOG: Final = 2048
CLOSE_S: Final = 1  # for connections whose answers have ended
LOOK_S: Final = 0.05  # how often the end looks what is still unread
TICK_S: Final = 1.0  # how often the Date header moves

_log = logging.getLogger(__name__)


class PortError(Exception):
    """A port cannot be bound; the message is one line."""


def bind(host: str, port: int, flag: str) -> socket.socket:
    """Binds and listens; port 0 takes a free one.

    Args:
        host: Address, IPv4 or IPv6.
        port: TCP port.
        flag: Flag to name in an error.

    Raises:
        PortError: In use, forbidden, or no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise PortError(
            f"cannot listen on {host}:{port}: {reason}; choose another with {flag}"
        ) from error
    except OverflowError as error:
        raise PortError(f"{flag}: {port} is no port") from error


class HttpServer(uvicorn.Server):
    """A server that leaves signals to the process and ends when told.

    Args:
        app: What it serves.
        write_deadline_s: How long a client may leave its answer unread.
        most_connections: Connections that are served at a time; those beyond are told so.
        on_refused: Called for each of those.
    """

    def __init__(
        self,
        app: ASGIApp,
        write_deadline_s: float,
        most_connections: int,
        on_refused: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=functools.partial(  # type: ignore[arg-type]  # called as the class would be
                    ClientConnection, write_deadline_s=write_deadline_s, admit=self._admit
                ),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=int(IDLE_CONNECTION_S),
                timeout_graceful_shutdown=CLOSE_S,
            )
        )
        self._stop = asyncio.Event()
        self._most_connections = most_connections
        self._on_refused = on_refused
        self._is_full = False

    def _admit(self, others: int) -> bool:
        """Whether one more connection beside so many others is served."""
        if others < self._most_connections:
            self._is_full = self._is_full and others > self._most_connections // 2
            return True
        if not self._is_full:
            self._is_full = True
            _log.warning(
                "%d connections are open on one port, the most there may be: more get 503",
                others,
            )
        self._on_refused()
        return False

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @override
    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), TICK_S)

    @property
    def unread(self) -> int:
        """Bytes that clients have not confirmed."""
        connections = cast("Collection[ClientConnection]", self.server_state.connections)
        return sum(each.unread for each in connections)

    def stop(self) -> None:
        """Closes the socket and, after a moment, every connection."""
        self.should_exit = True
        self._stop.set()


class Listeners:
    """The HTTP servers and the tasks that run them.

    Args:
        apps: Each application with its bound socket.
        write_deadline_s: How long a client may leave its answer unread.
        most_connections: Connections of each that are served at a time.
        on_refused: Called for each connection beyond.
    """

    def __init__(
        self,
        *apps: tuple[ASGIApp, socket.socket],
        write_deadline_s: float = WRITE_DEADLINE_S,
        most_connections: int = MOST_CONNECTIONS,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._servers = [
            (HttpServer(app, write_deadline_s, most_connections, on_refused), bound)
            for app, bound in apps
        ]
        self._write_deadline_s = write_deadline_s
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts to serve."""
        self._tasks = [
            asyncio.create_task(server.serve([bound])) for server, bound in self._servers
        ]

    async def delivered(self) -> None:
        """Waits until clients have what was written, as long as some of them read.

        What the kernel holds for them is lost where a container's network ends with it.
        """
        unread, read_at = self._unread, time.monotonic()
        while unread and time.monotonic() - read_at < self._write_deadline_s:
            await asyncio.sleep(LOOK_S)
            before, unread = unread, self._unread
            if unread < before:
                read_at = time.monotonic()

    @property
    def _unread(self) -> int:
        return sum(server.unread for server, _ in self._servers)

    async def stop(self) -> None:
        """Ends all of them."""
        for server, _ in self._servers:
            server.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
