"""The load that `what-if` plays: a trace file, or what Prometheus keeps of the past."""

from __future__ import annotations

import random
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from paceline_operator.cli import duration, wording
from paceline_operator.cli.errors import CliError
from paceline_operator.cli.what_if.trace_file import trace_tape
from paceline_operator.domain.names import derive
from paceline_operator.metrics.errors import PrometheusError
from paceline_operator.metrics.load_history import History, Question, read_history
from paceline_operator.metrics.query_api import Access, QueryApi
from paceline_operator.simulator.loads.scaled import scaled
from paceline_operator.simulator.loads.superpose import Tape
from paceline_operator.simulator.loads.totals import Totals, totals
from paceline_operator.simulator.loads.trace import TraceError
from paceline_operator.simulator.request import Request

LONGEST_TRACE_S = 31 * 86_400.0
"""Times in milliseconds, or from the epoch on some lines, would be played for hours."""
SHORTEST_TRACE_S = 1.0
"""In less no fleet can be looked at, and next to nothing would be paid for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayableLoad:
    """A load that can be played again.

    Attributes:
        tape: The load, from the chance of a seed.
        scale: How many times as much of it is played.
        source: Where it comes from.
        span_s: Its length.
        totals: Of one play with the first seed, before it is scaled.
        is_reconstructed: Whether single requests were drawn from counters.
        kv_tokens: KV tokens of one replica, where its source knows.
        notes: How it was made, one sentence each.
    """

    tape: Callable[[int], Tape]
    scale: float
    source: str
    span_s: float
    totals: Totals
    is_reconstructed: bool = False
    kv_tokens: int | None = None
    notes: tuple[str, ...] = ()

    def requests(self, seed: int) -> Iterator[Request]:
        """In order of arrival; the same each time."""
        return scaled(self.tape(seed), self.scale, generator(seed))


def generator(seed: int) -> random.Random:
    """The chance of a seed."""
    return random.Random(seed)  # noqa: S311 - a simulation's chance, not a secret


def from_trace(path: Path, scale: float) -> PlayableLoad:
    """A recorded load.

    Its plays raise TraceError where the file has changed meanwhile.

    Raises:
        CliError: The file is no trace, one that would be played for hours, or next to none.
    """
    try:
        tape = _unchanged(path)
        played = totals(tape.play())
    except TraceError as error:
        raise CliError(str(error)) from error
    if tape.span_s > LONGEST_TRACE_S:
        raise CliError(
            f"{path}: its requests arrive over {duration.written(tape.span_s)}, and "
            f"{duration.written(LONGEST_TRACE_S)} are played at most; give arrival_s in seconds, "
            "or a part of it"
        )
    if tape.span_s < SHORTEST_TRACE_S:
        raise CliError(
            f"{path}: its requests arrive within {tape.span_s:.2g} s, and "
            f"{SHORTEST_TRACE_S:g} s is the least that can be played; give arrival_s in seconds, "
            "or more of it"
        )
    return PlayableLoad(
        tape=lambda _seed: tape,
        scale=scale,
        source=f"trace {path.name}",
        span_s=tape.span_s,
        totals=played,
        notes=_scale_notes(scale),
    )


async def from_prometheus(
    url: str, access: Access, selector: str, *, span_s: float, scale: float, now_s: float
) -> PlayableLoad:
    """The load of the last while, made again from counters.

    Raises:
        CliError: The server does not answer, or knows of no load.
    """
    asked = Question(selector=selector, start_s=now_s - span_s, end_s=now_s)
    try:
        async with aiohttp.ClientSession() as session:
            found = await read_history(QueryApi(session, url, access), asked)
    except PrometheusError as error:
        raise CliError(str(error)) from error

    def tape(seed: int) -> Tape:
        return Tape(play=lambda: found.load.requests(generator(seed)), span_s=span_s)

    return PlayableLoad(
        tape=tape,
        scale=scale,
        source=f"Prometheus, the {duration.written(span_s)} up to {_moment(now_s)}",
        span_s=span_s,
        totals=totals(tape(1).play()),
        is_reconstructed=True,
        kv_tokens=found.kv_tokens,
        notes=(
            _reconstruction_note(found),
            *_left_out_notes(found),
            _prefix_note(found),
            *_scale_notes(scale),
        ),
    )


def default_selector(name: str, namespace: str) -> str:
    """Series of a service's engine pods, labelled as Prometheus's operator labels them."""
    pods = re.escape(derive(name)).replace("\\", "\\\\").replace("\\\\-", "-")
    return f'namespace="{namespace}",pod=~"{pods}-[0-9a-z]+-[0-9a-z]+"'


def _unchanged(path: Path) -> Tape:
    """The tape of a file: each play reads it anew, so it has to stay what it was."""
    first = _stamp(path)
    tape = trace_tape(path)

    def play() -> Iterator[Request]:
        yield from tape.play()
        if _stamp(path) != first:
            raise TraceError(f"{path}: it changed while it was played; name a file that stays")

    return replace(tape, play=play)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}; name a file to read") from error
    if not stat.S_ISREG(found.st_mode):
        raise TraceError(f"{path}: it is read several times; name a regular file")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _reconstruction_note(found: History) -> str:
    return (
        f"Load: a reconstruction. Prometheus keeps counters, scraped every {found.scrape_s:.0f} s, "
        f"and no single requests: arrivals are a Poisson process at the rate of each "
        f"{found.step_s:.0f} s (a mean over {found.window_s:.0f} s), lengths are drawn from its "
        "histograms, prompt and answer independent of each other. Shorter bursts are lost."
    )


def _left_out_notes(found: History) -> tuple[str, ...]:
    return tuple(
        f"Left out: the tier {tier!r}, of whose {wording.counted(round(requests), 'request')} none "
        "ended in that time, so that no lengths are known."
        for tier, requests in sorted(found.left_out.items())
    )


def _prefix_note(found: History) -> str:
    if not found.hit_share:
        return "Prefix cache: it found nothing in that time, so prompts share nothing."
    return (
        f"Prefix cache: prompts begin with one shared text, as much of it as was found of each "
        f"stretch's prompts ({100 * found.hit_share:.0f} % of all their tokens); that hits depend "
        "on which replica serves whom is lost."
    )


def _scale_notes(scale: float) -> tuple[str, ...]:
    if scale == 1:
        return ()
    return (
        f"Scale: {scale:g} times the load, by copies that begin at different moments; time is not "
        "compressed.",
    )


def _moment(now_s: float) -> str:
    return f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M} UTC"
