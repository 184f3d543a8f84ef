"""Keys are equal exactly where prompts begin alike."""

from __future__ import annotations

from paceline_operator.simulator.engine.prefix_keys import own_key, shared_keys
from paceline_operator.simulator.request import Request


def keys(prompt: int, *ids: int, block_size: int = 16) -> tuple[int, ...]:
    return shared_keys(Request(0.0, prompt, 1, ids), block_size)


def test_every_full_block_that_ids_speak_for_has_a_key() -> None:
    assert len(keys(1024, 7, 8)) == 64
    assert len(keys(1039, 7, 8)) == 64
    assert len(keys(600, 7, 8)) == 37
    assert len(keys(600, 7)) == 32
    assert keys(600) == ()
    assert keys(15, 7) == ()


def test_keys_are_alike_up_to_the_first_other_id() -> None:
    one, other = keys(1536, 1, 2, 3), keys(1536, 1, 2, 4)
    assert one[:64] == other[:64]
    assert not set(one[64:]) & set(other[64:])


def test_a_shorter_prompt_begins_alike() -> None:
    assert keys(100, 5) == keys(1000, 5, 6)[:6]


def test_the_same_id_elsewhere_is_another_text() -> None:
    assert not set(keys(1024, 1, 2)) & set(keys(1024, 2, 1))
    assert len(set(keys(2048, 1, 1, 1, 1))) == 128


def test_a_block_that_holds_two_ids_depends_on_both() -> None:
    one, other = keys(960, 1, 2, block_size=320), keys(960, 1, 3, block_size=320)
    assert one[0] == other[0]
    assert one[1] != other[1]


def test_own_keys_are_never_shared_ones() -> None:
    own = {own_key(arrival, place) for arrival in range(20) for place in range(200)}
    assert len(own) == 4000
    assert max(own) < 0 <= min(keys(4096, *range(8)))
