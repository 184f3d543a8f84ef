"""Token counts that grow with the text."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.runner.token_tally import TokenTally

TEXT = st.lists(st.integers(-2, 210), max_size=300)


@settings(deadline=None)
@given(TEXT, st.integers(0, 300), st.lists(st.integers(0, 300), max_size=5), st.booleans())
def test_counts_are_those_of_the_whole_text(
    text: list[int], prompt: int, stops: list[int], lists_prompt: bool
) -> None:
    tally = TokenTally(prompt, 200, lists_prompt=lists_prompt)
    for end in [*sorted(min(stop, len(text)) for stop in stops), len(text)]:
        tally.extend(text, end)
    listed = text if lists_prompt else text[prompt:]
    assert tally.ids.tolist() == list(dict.fromkeys(i for i in listed if 0 <= i < 200))
    output = Counter(text[prompt:])
    assert tally.output_counts.tolist() == [output[i] for i in tally.ids.tolist()]
