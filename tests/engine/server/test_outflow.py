"""What waits for a client, and when it has waited long enough."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paceline_engine.server.outflow import LEAST_BYTES_S, Outflow

PATIENCE_S = 0.02
LEAST = int(LEAST_BYTES_S * PATIENCE_S)


class Wire:
    """A transport on which a client takes so many bytes each time anyone looks."""

    def __init__(self, waiting: int = 0, taken_each: int = 0) -> None:
        self.waiting = waiting
        self.taken_each = taken_each
        self.written: list[bytes] = []
        self.looked = 0
        self.has_waited = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        self.looked += 1
        if self.looked == 8:  # twice for each time the patience ends
            self.has_waited.set()
        self.waiting = max(0, self.waiting - self.taken_each)
        return self.waiting

    def get_extra_info(self, _name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def write_eof(self) -> None:
        self.written.append(b"<end>")


def outflow_of(wire: Any, happened: list[str]) -> Outflow:
    return Outflow(
        wire,
        PATIENCE_S,
        on_close=lambda: happened.append("close"),
        on_unread=lambda: happened.append("unread"),
    )


@pytest.mark.parametrize("taken_each", [0, LEAST - 2])
async def test_one_that_takes_next_to_nothing_does_not_read(taken_each: int) -> None:
    happened: list[str] = []
    outflow = outflow_of(Wire(waiting=10**6, taken_each=taken_each), happened)
    outflow.pause_writing()
    await asyncio.wait_for(outflow.drain(), 5)
    assert happened == ["unread"]


async def test_one_that_reads_slowly_is_waited_for() -> None:
    happened: list[str] = []
    wire = Wire(waiting=10**6, taken_each=LEAST + 2)
    outflow = outflow_of(wire, happened)
    outflow.pause_writing()
    waits = asyncio.create_task(outflow.drain())
    await asyncio.wait_for(wire.has_waited.wait(), 5)
    assert not waits.done()
    outflow.resume_writing()
    await asyncio.wait_for(waits, 5)
    assert not happened


def test_a_head_goes_with_what_follows() -> None:
    wire = Wire()
    outflow = outflow_of(wire, [])
    with outflow.holding():
        outflow.write(b"head ")
    assert not wire.written
    outflow.write(b"body")
    outflow.write(b"more")
    outflow.release()
    assert wire.written == [b"head body", b"more"]


@pytest.mark.parametrize("size", [0, 10**6])
def test_a_head_is_not_copied_before_a_large_body_nor_lost_before_none(size: int) -> None:
    wire = Wire()
    outflow = outflow_of(wire, [])
    with outflow.holding():
        outflow.write(b"head")
    body = bytes(size)
    if size:
        outflow.write(body)
    outflow.release()
    assert wire.written == [b"head", body][: 1 + bool(size)]


def test_nothing_is_written_after_the_end() -> None:
    wire, happened = Wire(), list[str]()
    outflow = outflow_of(wire, happened)
    with outflow.holding():
        outflow.write(b"head")
    outflow.close()
    assert happened == ["close"]
    outflow.end()
    outflow.end()
    outflow.write(b"late")
    assert wire.written == [b"head", b"<end>"]
