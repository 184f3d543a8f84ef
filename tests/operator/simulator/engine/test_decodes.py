"""Rows that nobody touches stand where rows stand that are counted one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.window import BATCH
from paceline_operator.simulator.engine.decodes import Decodes
from paceline_operator.simulator.engine.sequence import Sequence
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served

SIZE = 4


def row(number: int, prompt: int, output: int) -> Sequence:
    tier = BATCH if number % 3 == 0 else "interactive"
    served = Served(Request(0.0, prompt, output, (), tier), number, 0.0)
    sequence = Sequence(served, number, prompt + output, 10.0)
    sequence.let_in(0, number)
    sequence.computed, sequence.known = prompt, prompt + 1
    return sequence


def blocks_for(tokens: int) -> int:
    return -(-tokens // SIZE)


rows = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9), st.integers(2, 12)), min_size=1)


@given(rows, st.lists(st.integers(0, 20), max_size=4))
def test_rows_need_blocks_and_end_when_they_do(
    arrivals: list[tuple[int, int, int]], removed: list[int]
) -> None:
    """`plain` holds the tokens that each row has computed, counted up step by step."""
    decodes, plain = Decodes(SIZE), {}
    known = [row(number, prompt, output) for number, (_, prompt, output) in enumerate(arrivals)]
    for step in range(24):
        for number, (at, prompt, _) in enumerate(arrivals):
            if at == step:
                decodes.add(known[number])
                plain[number] = prompt
        for number in removed:
            if number in plain and number == step % 7:
                decodes.remove(known[number])
                assert known[number].computed == plain.pop(number)
        assert decodes.kv_tokens == sum(plain.values())
        assert sum(decodes.count) == len(decodes) == len(plain)
        assert decodes.count[1] == sum(number % 3 == 0 for number in plain)
        needing = {number for number, tokens in plain.items() if tokens % SIZE == 0}
        assert decodes.blocks_needed(0, 1) == decodes.blocks_needed_next == len(needing)
        assert {n for n in plain if decodes.needs_block(known[n])} == needing
        decodes.advance(1)
        plain = {number: tokens + 1 for number, tokens in plain.items()}
        over = [n for n in plain if plain[n] + 1 == known[n].max_total]
        assert [each.served.id for each in decodes.ended()] == sorted(
            over, key=lambda n: known[n].rank
        )
        for number in over:
            assert known[number].computed == plain.pop(number)


@given(rows, st.integers(0, 5), st.integers(0, 30), st.integers(0, 40))
def test_blocks_of_many_steps_are_the_sum(
    arrivals: list[tuple[int, int, int]], after: int, steps: int, blocks: int
) -> None:
    decodes, prompts = Decodes(SIZE), [prompt for _, prompt, _ in arrivals]
    for number, prompt in enumerate(prompts):
        decodes.add(row(number, prompt, 1000))
    needed = sum(
        blocks_for(prompt + after + steps) - blocks_for(prompt + after) for prompt in prompts
    )
    assert decodes.blocks_needed(after, steps) == needed
    most = decodes.steps_within(after, blocks)
    assert decodes.blocks_needed(after, most) <= blocks < decodes.blocks_needed(after, most + 1)


def test_the_first_end_is_known() -> None:
    decodes = Decodes(SIZE)
    short, long = row(1, 3, 4), row(2, 3, 9)
    decodes.add(long)
    decodes.add(short)
    assert decodes.until_end == 3
    decodes.remove(short)
    assert decodes.until_end == 8
    decodes.advance(7)
    assert decodes.until_end == 1
    assert list(decodes.ended()) == []
