from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.client.unread import Unread
from paceline_engine.message import AddRequest, Fork, LoopState
from paceline_engine.request import Request, Tier
from paceline_engine.sampling import SamplingParams

TAKEN = LoopState(
    requests_running=2,
    requests_waiting=3,
    waiting_tokens=50,
    kv_blocks_free=1,
    kv_blocks_held=1,
    kv_blocks_cached=1,
    max_num_batched_tokens=64,
    max_num_running_seqs=8,
    batch_waiting=1,
    batch_waiting_tokens=20,
)
Sent = tuple[int, int, Tier]


def message(prompt: int, forks: int, tier: Tier) -> AddRequest:
    asked = Request(
        request_id=0,
        prompt_token_ids=(1,) * prompt,
        sampling=SamplingParams(seed=0, max_tokens=1),
        tier=tier,
    )
    return AddRequest(asked, tuple(Fork(each, each) for each in range(forks)))


@given(
    sent=st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 5), st.sampled_from(Tier)), max_size=8
    ),
    data=st.data(),
)
def test_what_lies_unread_waits_with_the_others(sent: list[Sent], data: st.DataObject) -> None:
    unread = Unread()
    requests: list[tuple[int, Tier]] = []
    for prompt, forks, tier in sent:
        unread.send(message(prompt, forks, tier))
        requests += [(prompt, tier), *[(1, tier)] * forks]
    taken = 0
    while taken < len(requests):
        left = requests[taken:]
        batch = [tokens for tokens, tier in left if tier is Tier.BATCH]
        state = unread.beside(TAKEN)
        assert state.requests_waiting == 3 + len(left)
        assert state.waiting_tokens == 50 + sum(tokens for tokens, _ in left)
        assert (state.batch_waiting, state.batch_waiting_tokens) == (
            1 + len(batch),
            20 + sum(batch),
        )
        taken = data.draw(st.integers(taken + 1, len(requests)))
        unread.take(taken)
    assert unread.beside(TAKEN) == TAKEN


def test_a_report_that_took_none_changes_nothing() -> None:
    unread = Unread()
    unread.take(0)
    unread.send(message(7, 0, Tier.INTERACTIVE))
    unread.take(0)
    assert unread.beside(TAKEN).waiting_tokens == 57
    unread.take(1)
    unread.take(1)
    assert unread.beside(TAKEN) == TAKEN
