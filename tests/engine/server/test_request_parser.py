"""Requests in bytes that come in any pieces, and what no client can make the parser keep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.errors import BadRequestError, HeadTooLargeError
from paceline_engine.server.request_parser import (
    MAX_HEAD_BYTES,
    Head,
    PipelinedError,
    RequestParser,
)


class Sink:
    """Notes what it is told."""

    def __init__(self, *, takes: int = 100) -> None:
        self._takes = takes
        self.heads: list[Head] = []
        self.bodies: list[bytes] = []
        self.ended = 0

    def on_begin(self) -> None:
        if self.ended == self._takes:
            raise PipelinedError

    def on_head(self, head: Head) -> None:
        self.heads.append(head)
        self.bodies.append(b"")

    def on_body_part(self, part: bytes) -> None:
        self.bodies[-1] += part

    def on_end(self, *, keeps_alive: bool) -> None:
        self.keeps_alive = keeps_alive
        self.ended += 1


def read(parts: Sequence[bytes]) -> Sink:
    sink = Sink()
    parser = RequestParser(sink)
    for part in parts:
        parser.feed(part)
    return sink


OFFER = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
POST = b"POST /a%20b?c=d HTTP/1.1\r\nhost: x\r\nX-One: 1\r\n"
SENT = {
    "length": (POST + b"content-length: 5\r\n\r\n12345", b"12345"),
    "no body": (POST + b"\r\n", b""),
    "chunks": (
        POST + b"transfer-encoding: chunked\r\n\r\n2;e=f\r\n12\r\n1\r\n3\r\n0\r\nt: u\r\n\r\n",
        b"123",
    ),
    "upgrade": (POST + OFFER + b"content-length: 5\r\n\r\n12345", b"12345"),
    "upgrade, no body": (POST + OFFER + b"\r\n", b""),
    "upgrade, chunks": (
        POST + OFFER + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"a",
    ),
}


@given(
    st.lists(st.sampled_from(sorted(SENT)), min_size=1, max_size=4),
    st.sets(st.integers(0, 400), max_size=12),
)
def test_any_pieces_say_the_same(kinds: list[str], cuts: set[int]) -> None:
    raw = b"".join(SENT[kind][0] for kind in kinds)
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(raw)), len(raw)]
    sink = read([raw[start:end] for start, end in pairwise(edges)])
    assert sink.bodies == [SENT[kind][1] for kind in kinds]
    assert sink.ended == len(kinds)
    for head in sink.heads:
        names = [name for name, _ in head.headers]
        assert (head.method, head.path, head.query) == ("POST", b"/a%20b", b"c=d")
        assert (head.http_version, head.keeps_alive) == ("1.1", True)
        assert (b"x-one", b"1") in head.headers
        assert b"t" not in names
        assert b"upgrade" not in names


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /", b"a" * 1000),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: ", b"a" * 1000),
        (b"GET / HTTP/1.1\r\nhost: x\r\n", b"x: y\r\n" * 100),
        (b"", b"\r\n" * 500),
        (SENT["chunks"][0][:-2], b"x: y\r\n" * 100),
        (SENT["chunks"][0][:-2] + b"x: ", b"a" * 1000),
        (POST + b"transfer-encoding: chunked\r\n\r\n2;e=", b"f" * 1000),
        (POST + OFFER + b"x: ", b"a" * 1000),
    ],
)
def test_nothing_but_a_body_goes_on_for_long(start: bytes, more: bytes) -> None:
    parser = RequestParser(Sink())
    parser.feed(start)
    for _ in range((MAX_HEAD_BYTES - len(start)) // len(more)):
        parser.feed(more)
    with pytest.raises(HeadTooLargeError):
        parser.feed(more * 2)


def test_a_body_may_go_on_in_small_chunks() -> None:
    """Nine tenths of these bytes are not of the body."""
    chunks = b"1;what=ever\r\na\r\n" * 100
    sink = read([POST + b"transfer-encoding: chunked\r\n\r\n", *[chunks] * 100, b"0\r\n\r\n"])
    assert (sink.bodies, sink.ended) == ([b"a" * 10_000], 1)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00",
        b"GET / HTTP/1.1\r\nhost: x\r\nx\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.0\r\nhost: x\r\nHost: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    ],
)
def test_what_is_no_request(sent: bytes) -> None:
    with pytest.raises(BadRequestError):
        read([sent])


@pytest.mark.parametrize("kind", sorted(SENT))
def test_a_sink_can_stop_it(kind: str) -> None:
    sink = Sink(takes=1)
    with pytest.raises(PipelinedError):
        RequestParser(sink).feed(SENT[kind][0] * 2)
    assert (sink.bodies, sink.ended) == ([SENT[kind][1]], 1)


@pytest.mark.parametrize("value", [b"100-continue", b"100-Continue"])
def test_a_client_may_wait_to_be_asked(value: bytes) -> None:
    sink = read([POST + b"Expect: " + value + b"\r\ncontent-length: 1\r\n\r\n"])
    assert sink.heads[0].expects_continue
    assert not read([SENT["length"][0]]).heads[0].expects_continue


def test_http_1_0_knows_no_host_and_does_not_wait_to_be_asked() -> None:
    sink = read([b"POST / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n1"])
    assert sink.bodies == [b"1"]
    assert not sink.heads[0].expects_continue


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://x", b"/", b""),
        (b"http://x?a=b", b"/", b"a=b"),
        (b"http://x:1/c?a=b", b"/c", b"a=b"),
        (b"*", b"*", b""),
    ],
)
def test_targets(target: bytes, path: bytes, query: bytes) -> None:
    (head,) = read([b"OPTIONS " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n"]).heads
    assert (head.path, head.query) == (path, query)


@pytest.mark.parametrize(
    ("trailer", "keeps_alive"),
    [(b"", True), (b"t: u\r\n", True), (b"Connection: close\r\n", False)],
)
def test_a_trailer_can_end_the_connection(trailer: bytes, *, keeps_alive: bool) -> None:
    sink = read([SENT["chunks"][0][: -len(b"t: u\r\n\r\n")] + trailer + b"\r\n"])
    assert sink.heads[0].keeps_alive
    assert sink.keeps_alive is keeps_alive
