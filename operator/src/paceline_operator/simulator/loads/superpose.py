"""More load from a recorded one: copies of it side by side, and again from its beginning.

Time is never compressed: that would shorten bursts in relation to a cold start. Everything is
streamed. Each copy and each lap gets block ids of its own, since what was computed for one
must not be found by another.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.request import Request

_KEY_BITS = 20
_KEYS = 1 << _KEY_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """A recorded load.

    Attributes:
        play: Gives its requests in order of arrival, each time from the first.
        span_s: Length of a lap, longer than any arrival.
    """

    play: Callable[[], Iterator[Request]]
    span_s: float

    def __post_init__(self) -> None:
        if not 0 < self.span_s < float("inf"):
            raise ValueError(f"a lap of {self.span_s} s has no length")


def record(play: Callable[[], Iterator[Request]]) -> Tape:
    """A tape whose laps follow each other at the mean gap; plays it once to see its length."""
    last_s, requests = 0.0, 0
    for request in play():
        last_s, requests = request.arrival_s, requests + 1
    return Tape(play=play, span_s=last_s + last_s / max(1, requests - 1))


def loop(tape: Tape, until_s: float) -> Iterator[Request]:
    """The tape again and again, until a time."""
    return until(_laps(tape, 0.0, copy=0, copies=1), until_s)


def superpose(
    tape: Tape,
    copies: int,
    generator: Generator,
    *,
    spread: float = 1.0,
    until_s: float | None = None,
) -> Iterator[Request]:
    """Copies of the tape at once, each begun at a place of its own and wrapped around.

    Args:
        tape: What is multiplied.
        copies: How often; the mean rate is as many times the tape's.
        generator: Chance of the places.
        spread: Share of the tape among whose first seconds the places lie. 1 averages all
            of its shape out of many copies; with little, its tides stay and only what is
            shorter than `spread` x `span_s` is averaged.
        until_s: Where it ends; one lap where None.
    """
    starts_s = [spread * tape.span_s * generator.random() for _ in range(copies)]
    streams = [_laps(tape, start_s, number, copies) for number, start_s in enumerate(starts_s)]
    return until(in_order(streams), tape.span_s if until_s is None else until_s)


def in_order(streams: Iterable[Iterator[Request]]) -> Iterator[Request]:
    """Several loads as one, in order of arrival."""
    return heapq.merge(*streams, key=attrgetter("arrival_s"))


def until(requests: Iterable[Request], end_s: float) -> Iterator[Request]:
    """Those that arrive before a time."""
    return itertools.takewhile(lambda request: request.arrival_s < end_s, requests)


def jitter(requests: Iterable[Request], grid_s: float, generator: Generator) -> Iterator[Request]:
    """Arrivals that were rounded down to a grid, spread over its steps again."""
    moved: list[tuple[float, int, Request]] = []
    for number, request in enumerate(requests):
        while moved and moved[0][0] <= request.arrival_s:
            yield heapq.heappop(moved)[2]
        later = _moved(request, request.arrival_s + grid_s * generator.random(), None)
        heapq.heappush(moved, (later.arrival_s, number, later))
    yield from (heapq.heappop(moved)[2] for _ in range(len(moved)))


def rekeyed(requests: Iterable[Request], key: int) -> Iterator[Request]:
    """The same requests, sharing nothing with those of another key.

    Raises:
        ValueError: Not a key.
    """
    checked = _checked(key)
    return (_moved(request, request.arrival_s, checked) for request in requests)


def _laps(tape: Tape, start_s: float, copy: int, copies: int) -> Iterator[Request]:
    """Endless, from a place of the tape."""
    for lap in itertools.count():
        key = _checked(lap * copies + copy)
        offset_s = lap * tape.span_s - start_s
        for request in tape.play():
            arrival_s = request.arrival_s + offset_s
            if arrival_s >= 0:
                yield _moved(request, arrival_s, key)


def _checked(key: int) -> int:
    if not 0 <= key < _KEYS:
        raise ValueError(f"more than {_KEYS} copies and laps")
    return key


def _moved(request: Request, arrival_s: float, key: int | None) -> Request:
    blocks = request.prefix_blocks
    if blocks and key is not None:
        blocks = tuple([block << _KEY_BITS | key for block in blocks])
    return Request(arrival_s, request.prompt_tokens, request.output_tokens, blocks, request.tier)
