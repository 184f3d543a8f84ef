from __future__ import annotations

from random import Random

import pytest

from e2e.load.mix import NAMED, Kind, MixError, choose, parse_mix


def test_a_mix_is_read_field_by_field() -> None:
    assert parse_mix("chat:0.75:8-16:4,long:0.25:500:2-3") == (
        Kind(name="chat", weight=0.75, prompt_tokens=(8, 16), max_tokens=(4, 4)),
        Kind(name="long", weight=0.25, prompt_tokens=(500, 500), max_tokens=(2, 3)),
    )


@pytest.mark.parametrize("name", NAMED)
def test_named_mixes_are_mixes(name: str) -> None:
    assert parse_mix(name) == parse_mix(NAMED[name])


@pytest.mark.parametrize(
    "text",
    ["", "chat", "chat:1:8", "chat:x:8:4", "chat:1:8-4:4", "chat:1:0:4", "chat:-1:8:4",
     "chat:nan:8:4", "chat:inf:8:4", "chat:0:8:4", "chat:1:8:4:5", "nosuch"],
)  # fmt: skip
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(MixError) as refused:
        parse_mix(text)
    assert repr(text) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_kinds_come_by_weight() -> None:
    kinds = parse_mix("a:0:1:1,b:3:1:1,c:1:1:1")
    rng = Random(5)
    drawn = [choose(kinds, rng).name for _ in range(4000)]
    assert drawn.count("a") == 0
    assert 2850 < drawn.count("b") < 3150
