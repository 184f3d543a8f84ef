"""Who is served first, and who yields first."""

from __future__ import annotations

from paceline_engine.request import Request, Tier
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.running import MAX_PREEMPTIONS, RunningSet
from paceline_engine.scheduler.sequence import Sequence, Ticket

LIVE, BATCH = Tier.INTERACTIVE, Tier.BATCH


def sequence(request_id: int, tier: Tier, preemptions: int = 0) -> Sequence:
    request = Request(
        request_id=request_id, prompt_token_ids=(1,), sampling=SamplingParams(), tier=tier
    )
    made = Sequence(request, 10, frozenset(), Ticket(arrival=request_id, received_s=0.0))
    made.preemptions = preemptions
    return made


def running(*members: tuple[Tier, int]) -> RunningSet:
    made = RunningSet()
    for request_id, (tier, preemptions) in enumerate(members):
        made.add(sequence(request_id, tier, preemptions))
    return made


def test_batch_yields_before_interactive_and_the_latest_first() -> None:
    made = running(
        (BATCH, 0), (LIVE, 0), (BATCH, 0), (LIVE, 0), (BATCH, MAX_PREEMPTIONS), (LIVE, 1)
    )
    assert [s.request_id for s in made] == [4, 1, 3, 5, 0, 2]
    victims = []
    while (victim := made.victim()) is not None:
        victims.append(victim.request_id)
        assert made.remove(victim.request_id) is victim
    assert victims == [2, 0, 5, 3, 1]
    assert [s.request_id for s in made] == [4]
    assert (len(made), made.num_batch, len(list(made.protected))) == (1, 1, 1)


def test_counts_and_unknown_ids() -> None:
    made = running((BATCH, 0), (LIVE, 0))
    assert (len(made), made.num_batch, list(made.protected)) == (2, 1, [])
    assert (made.get(7), made.remove(7)) == (None, None)
    assert [s.request_id for s in made.displaceable()] == [0]
