"""When an output ends, and what preemption keeps."""

from __future__ import annotations

import pytest

from paceline_engine.message import TokenLogprobs, TokenOutput
from paceline_engine.request import FinishReason, Request
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.sequence import DECODES_AHEAD, DECODES_AT_ONCE, Sequence, Ticket

EOS = frozenset({2})


def sequence(max_total: int = 100, **sampling: object) -> Sequence:
    params = SamplingParams(**{"max_tokens": 5, **sampling})  # type: ignore[arg-type]  # test data
    request = Request(request_id=1, prompt_token_ids=(10, 11, 12), sampling=params)
    return Sequence(request, max_total, EOS, Ticket(arrival=0, received_s=5.0))


@pytest.mark.parametrize(
    ("sampling", "token", "reason"),
    [
        ({}, 7, None),
        ({}, 2, FinishReason.STOP),
        ({"ignore_eos": True}, 2, None),
        ({"stop_token_ids": (7,)}, 7, FinishReason.STOP),
        ({"stop_token_ids": (7,), "ignore_eos": True}, 7, FinishReason.STOP),
        ({"max_tokens": 1}, 7, FinishReason.LENGTH),
        ({"max_tokens": 1}, 2, FinishReason.STOP),
    ],
)
def test_end(sampling: dict[str, object], token: int, reason: FinishReason | None) -> None:
    made = sequence(**sampling)
    made.admit(num_computed=0, block_ids=[3], block_size=16)
    assert made.append(token) is reason
    kept = [10, 11, 12] if reason is FinishReason.STOP else [10, 11, 12, token]
    assert made.token_ids == kept


def test_the_smaller_of_context_and_max_tokens_ends_it() -> None:
    made = sequence(max_total=5)
    made.admit(num_computed=0, block_ids=[3], block_size=16)
    assert made.append(7) is None
    assert made.append(7) is FinishReason.LENGTH


def test_it_has_tokens_of_its_own_once_it_is_admitted() -> None:
    made = sequence()
    assert (made.known_ids, made.num_remaining) == ((10, 11, 12), 3)
    assert made.known_ids is made.request.prompt_token_ids
    made.admit(num_computed=1, block_ids=[3], block_size=16)
    assert made.known_ids is made.token_ids
    assert (made.token_ids, made.num_remaining) == ([10, 11, 12], 2)


def test_preemption_forgets_the_cache_and_keeps_the_text() -> None:
    made = sequence()
    made.admit(num_computed=0, block_ids=[3], block_size=16)
    assert made.is_prefilling
    made.num_computed = 3
    made.append(7)
    assert (made.is_prefilling, made.num_remaining) == (False, 1)
    made.preempt()
    assert (made.token_ids, made.num_remaining) == ([10, 11, 12, 7], 4)
    made.admit(num_computed=2, block_ids=[3], block_size=16)
    assert (made.prefill_end, made.num_remaining, made.preemptions) == (4, 2, 1)


def test_only_the_first_output_says_how_it_came_to_it() -> None:
    made = sequence()
    made.start(now_s=7.5)
    made.cached_tokens = 2
    plain = TokenOutput(1, (7,))
    assert made.tell(plain) == TokenOutput(1, (7,), queue_s=2.5, cached_tokens=2)
    assert made.tell(plain) == plain


def test_prompt_logprobs_are_told_once_and_survive_preemption() -> None:
    about = [TokenLogprobs(token_id=place, logprob=-1.0, rank=1) for place in range(3)]
    made = sequence(prompt_logprobs=0)
    made.add_prompt_logprobs(0, (about[1],))
    assert made.needs_whole_prompt
    made.preempt()
    made.add_prompt_logprobs(0, (about[1], about[2]))
    assert made.tell(TokenOutput(1, (7,))).prompt_logprobs == (about[1], about[2])
    assert not made.needs_whole_prompt
    made.add_prompt_logprobs(0, (about[1],))
    assert made.tell(TokenOutput(1, (7,))).prompt_logprobs == ()


def test_what_is_computed_again_is_not_charged_again() -> None:
    made = sequence(max_tokens=3)
    made.admit(num_computed=0, block_ids=[3], block_size=16)
    assert made.prepay() == 2  # the last token drawn is never computed
    assert made.bill(2) == 2
    made.num_computed = 2
    assert made.bill(3) == 1
    made.num_computed = 3
    assert made.bill(4) == 0  # charged ahead
    made.num_computed = 4
    made.preempt()
    assert made.prepay() == 0
    assert [made.bill(end) for end in (3, 4, 5)] == [0, 0, 0]
    assert made.settle() == 0


def test_what_was_charged_ahead_and_not_served_is_given_back() -> None:
    made = sequence(max_tokens=20)
    assert made.prepay() == 19  # never more than it may draw
    made.bill(3)
    made.num_computed = 3
    made.bill(4)
    assert (made.settle(), made.settle()) == (18, 0)


def test_what_the_cache_held_is_not_charged() -> None:
    made = sequence()
    made.admit(num_computed=2, block_ids=[3], block_size=16)
    assert made.bill(3) == 1


@pytest.mark.parametrize("max_tokens", [2, DECODES_AHEAD - 1, DECODES_AHEAD + 1, 500])
def test_each_is_charged_as_many_decodes_ahead_and_each_token_once(max_tokens: int) -> None:
    made = sequence(max_total=1000, max_tokens=max_tokens)
    made.admit(num_computed=0, block_ids=[3], block_size=16)
    charged = made.prepay() + made.bill(3)
    for computed in range(3, made.max_total - 1):
        made.num_computed = computed
        charged += made.bill_decode()
        ahead, still = charged - (computed + 1), made.max_total - 1 - (computed + 1)
        assert min(still, DECODES_AHEAD - DECODES_AT_ONCE) <= ahead <= min(still, DECODES_AHEAD)
        made.rest()
        assert made.quiet_until <= made.max_total - 1
        assert made.quiet_until <= computed + 1 + ahead  # charged before it is computed
    assert charged == made.max_total - 1
    assert (made.prepay(), made.settle()) == (0, 0)


def test_who_comes_back_is_charged_ahead_only_what_is_lacking() -> None:
    made = sequence(max_total=1000, max_tokens=900)
    charged = made.prepay() + made.bill(3)
    made.num_computed = 3
    charged += made.bill_decode()
    made.preempt()
    charged += made.prepay() + made.bill(4)
    assert charged - made.settle() == 4
