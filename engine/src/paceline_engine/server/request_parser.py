"""Reads requests from the bytes of one connection: heads, bodies, ends, and nothing beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import httptools

from paceline_engine.server.errors import ApiError, BadRequestError, HeadTooLargeError

MAX_HEAD_BYTES: Final = 64 * 1024
_OWN_BYTES: Final = 4  # of each header: colon, space, end of line
_COUNTED_BYTES: Final = 4 * 1024  # read, and counted, at a time

Headers = list[tuple[bytes, bytes]]


class PipelinedError(Exception):
    """A request came before the answer to the one before it was out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Request line and headers.

    Attributes:
        method: As sent.
        path: Undecoded.
        query: Without the question mark.
        headers: Their names in lower case.
        http_version: "1.1" or "1.0".
        keeps_alive: Whether the client can put another request on the connection.
    """

    method: str
    path: bytes
    query: bytes
    headers: Headers
    http_version: str
    keeps_alive: bool

    @property
    def expects_continue(self) -> bool:
        """Whether the client sends its body only when told to; HTTP/1.0 knows no such thing."""
        return self.http_version != "1.0" and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers
        )


class RequestSink(Protocol):
    """Takes what is read; what it raises ends the reading."""

    def on_begin(self) -> None:
        """A request's first byte has come; may be said twice."""

    def on_head(self, head: Head) -> None:
        """Its headers are complete."""

    def on_body_part(self, part: bytes) -> None:
        """So much more of its body has come."""

    def on_end(self, *, keeps_alive: bool) -> None:
        """It is complete.

        Args:
            keeps_alive: As the head's; a trailer can have ended it since.
        """


class RequestParser:
    """Parses with httptools, which would hold trailers without end and stop at any upgrade.

    An upgrade is ignored, as HTTP/1.1 allows: clients that offer HTTP/2 in clear get their answer
    over HTTP/1.1. Trailers are read over. Bytes that are neither body nor the end of a request
    are heads, trailers or chunk extensions, and of these no more than `MAX_HEAD_BYTES` may come:
    exactly so for a head and for trailers, to 8 KiB for a chunk's extensions.

    Args:
        sink: Is told.
    """

    def __init__(self, sink: RequestSink) -> None:
        self._sink = sink
        self._bare_bytes = 0  # since the last byte of a body, or the last end
        self._trailer_bytes = 0
        self._has_moved = False
        self._start()

    def _start(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # it is dropped
        self._is_between = True

    def close(self) -> None:
        """Lets go of the parser, which holds on to this."""
        del self._parser

    def feed(self, data: bytes) -> None:
        """Reads on.

        Raises:
            ApiError: The bytes are no request, or too large a head.
            PipelinedError: The sink takes no more.
        """
        for at in range(0, len(data), _COUNTED_BYTES):
            part = data[at : at + _COUNTED_BYTES]
            self._has_moved = False
            self._feed(part)
            self._bare_bytes = 0 if self._has_moved else self._bare_bytes + len(part)
            _check_size(self._bare_bytes)

    def _feed(self, data: bytes) -> None:
        upgrade_at = self._read_to_upgrade(data)
        if upgrade_at is not None:
            self._ignore_upgrade(data[upgrade_at:])

    def _read_to_upgrade(self, data: bytes) -> int | None:
        """Reads; returns where it stopped because a client asked for another protocol."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            offset: int = upgrade.args[0]
            return offset
        except httptools.HttpParserError as error:
            raise _cause(error) from error
        return None

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Reads the request again as one that asks for no upgrade: this parser skips its body."""
        line = b"%b %b HTTP/%b\r\n" % (
            self._parser.get_method(),
            self._url,
            self._parser.get_http_version().encode(),
        )
        fields = (
            b"%b: %b\r\n" % (name, value) for name, value in self._headers if name != b"upgrade"
        )
        self._start()
        self._feed(b"".join((line, *fields, b"\r\n", rest)))

    def on_message_begin(self) -> None:
        """Called by httptools, as all below."""
        self._url = b""
        self._headers: Headers = []
        self._sink.on_begin()

    def on_url(self, url: bytes) -> None:
        """Some more of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody asked for."""
        if self._is_between:
            self._headers.append((name.lower(), value))
        else:
            self._trailer_bytes += len(name) + len(value) + _OWN_BYTES
            _check_size(self._trailer_bytes)

    def on_headers_complete(self) -> None:
        """The head is there."""
        fields = sum(len(name) + len(value) + _OWN_BYTES for name, value in self._headers)
        _check_size(len(self._url) + fields)
        method = self._parser.get_method().decode("ascii")
        if method == "CONNECT":
            raise BadRequestError("CONNECT is for proxies, and this is none")
        if self._parser.should_upgrade():
            return
        version = self._parser.get_http_version()
        _check_host(self._headers, version)
        self._is_between, self._trailer_bytes = False, 0
        url = httptools.parse_url(self._url)
        self._sink.on_head(
            Head(
                method=method,
                path=url.path or b"/",
                query=url.query or b"",
                headers=self._headers,
                http_version=version,
                keeps_alive=self._parser.should_keep_alive(),
            )
        )

    def on_body(self, body: bytes) -> None:
        """Some more of it."""
        self._has_moved = True
        self._sink.on_body_part(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        if self._parser.should_upgrade():
            return
        self._has_moved = self._is_between = True
        self._url, self._headers = b"", []  # a connection may be idle for long
        self._sink.on_end(keeps_alive=self._parser.should_keep_alive())


def _check_size(head_bytes: int) -> None:
    if head_bytes > MAX_HEAD_BYTES:
        raise HeadTooLargeError(
            f"the request's line and headers are larger than {MAX_HEAD_BYTES} bytes"
        )


def _check_host(headers: Headers, version: str) -> None:
    """Two could mean one place to a proxy and another here; HTTP/1.0 has none."""
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (hosts == 0 and version != "1.0"):
        raise BadRequestError(f"a request has one Host header, and this one has {hosts}")


def _cause(error: httptools.HttpParserError) -> Exception:
    """What a callback raised; else the bytes are no request."""
    if isinstance(error.__context__, ApiError | PipelinedError):
        return error.__context__
    return BadRequestError("this is not a valid HTTP request")
