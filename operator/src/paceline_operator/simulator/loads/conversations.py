"""Conversations: each turn sends all that was said before, behind a shared system prompt."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count, islice

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.loads.arrivals import arrivals, points
from paceline_operator.simulator.loads.lengths import Lengths
from paceline_operator.simulator.loads.popularity import Popularity
from paceline_operator.simulator.loads.rates import Rates, Segment
from paceline_operator.simulator.request import PREFIX_BLOCK_TOKENS, Request


@dataclass(frozen=True, slots=True)
class _Turn:
    """One request of a conversation, before it is sent."""

    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """Turns of many conversations at once.

    The next turn comes once the answer would be read and thought about; it does not wait for
    the simulated answer, so that every controller meets the same load.

    Attributes:
        rates: Requests per second in the long run: conversations open at 1 / `turns` of it.
        message: Tokens of what the user says, and of the answer.
        system_prompts: How many there are, and how unequally they are used.
        system_blocks: Length of each, in blocks of 512 tokens.
        turns: Mean number of turns, geometric.
        token_s: Assumed time until the next token of an answer.
        think_s: Mean pause after an answer, exponential.
        most_tokens: A conversation ends where prompt and answer would be longer.
        lead_s: How long conversations have been opening when the load begins.
        dispersion: Of the openings, see `arrivals.points`.
    """

    rates: Rates
    message: Lengths
    system_prompts: Popularity
    system_blocks: int
    turns: float
    token_s: float = 0.05
    think_s: float = 20.0
    most_tokens: int = 32_768
    lead_s: float = 600.0
    dispersion: float = 1.0

    @property
    def duration_s(self) -> float:
        """That of the rates."""
        return self.rates.duration_s

    def requests(self, generator: Generator) -> Iterator[Request]:
        """In order of arrival."""
        ids = count(self.system_prompts.kinds * self.system_blocks)
        due: list[tuple[float, int, _Turn]] = []
        for number, opening_s in enumerate(self._openings_s(generator)):
            yield from self._sent_before(opening_s, due, ids, generator)
            heapq.heappush(due, (opening_s, number, self._first(ids, generator)))
        yield from self._sent_before(self.duration_s, due, ids, generator)

    def _sent_before(
        self,
        end_s: float,
        due: list[tuple[float, int, _Turn]],
        ids: Iterator[int],
        generator: Generator,
    ) -> Iterator[Request]:
        """Sends what is due before a time, and plans the turn after each."""
        while due and due[0][0] < end_s:
            at_s, conversation, turn = heapq.heappop(due)
            if at_s >= 0:
                yield Request(at_s, turn.prompt_tokens, turn.output_tokens, turn.blocks)
            following = self._following(turn, ids, generator)
            if following:
                later_s = at_s + self._pause_s(turn, generator)
                heapq.heappush(due, (later_s, conversation, following))

    def _openings_s(self, generator: Generator) -> Iterator[float]:
        unit_points = points(generator, self.dispersion)
        times_s = arrivals(self._opening_rates(generator), unit_points)
        return (at_s - self.lead_s for at_s in times_s)

    def _opening_rates(self, generator: Generator) -> Iterator[Segment]:
        segments = iter(self.rates.segments(generator))
        first = next(segments)
        lead = Segment(self.lead_s, first.from_rps, first.from_rps)
        for part in chain((lead, first), segments):
            yield Segment(part.duration_s, part.from_rps / self.turns, part.to_rps / self.turns)

    def _first(self, ids: Iterator[int], generator: Generator) -> _Turn:
        first_id = self.system_prompts.draw(generator) * self.system_blocks
        system = tuple(range(first_id, first_id + self.system_blocks))
        message, answer = self.message.draw(generator)
        tokens = self.system_blocks * PREFIX_BLOCK_TOKENS + message
        return _Turn(tokens, answer, _grown(system, tokens, ids))

    def _following(self, turn: _Turn, ids: Iterator[int], generator: Generator) -> _Turn | None:
        if generator.random() * self.turns < 1.0:
            return None
        message, answer = self.message.draw(generator)
        tokens = turn.prompt_tokens + turn.output_tokens + message
        if tokens + answer > self.most_tokens:
            return None
        return _Turn(tokens, answer, _grown(turn.blocks, tokens, ids))

    def _pause_s(self, turn: _Turn, generator: Generator) -> float:
        return turn.output_tokens * self.token_s + generator.expovariate(1.0 / self.think_s)


def _grown(blocks: tuple[int, ...], tokens: int, ids: Iterator[int]) -> tuple[int, ...]:
    """The ids of a longer prompt: a block that was begun keeps its id while it fills."""
    missing = -(-tokens // PREFIX_BLOCK_TOKENS) - len(blocks)
    return blocks + tuple(islice(ids, missing))
