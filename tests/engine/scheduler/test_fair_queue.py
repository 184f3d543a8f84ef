"""The order of the queue, rule by rule."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.fair_queue import FairQueue
from paceline_engine.scheduler.sequence import Sequence, Ticket
from tests.support.engine_config import engine_config

MAX_WAIT_S = {Tier.INTERACTIVE: 10.0, Tier.BATCH: 100.0}


class Line:
    """A queue, and requests made with one word each."""

    def __init__(self, **changes: object) -> None:
        self.queue = FairQueue(engine_config(**{"batch_weight": 0.25, **changes}))
        self._arrivals = 0

    def add(
        self,
        tenant: str = "",
        *,
        tier: Tier = Tier.INTERACTIVE,
        prompt: int = 10,
        max_tokens: int = 1,
        deadline_s: float = float("inf"),
        now_s: float = 0.0,
    ) -> Sequence:
        self._arrivals += 1
        request = Request(
            request_id=self._arrivals,
            prompt_token_ids=(1,) * prompt,
            sampling=SamplingParams(max_tokens=max_tokens),
            tier=tier,
            cache_scope=CacheScope(tenant=tenant),
        )
        ticket = Ticket(
            arrival=self._arrivals,
            received_s=now_s,
            due_s=now_s + MAX_WAIT_S[tier],
            deadline_s=deadline_s,
        )
        sequence = Sequence(request, 1000, frozenset(), ticket)
        self.queue.add(sequence)
        return sequence

    def take(self, now_s: float = 1.0) -> Sequence:
        """Lets the head run to its end and charges what it computed."""
        head = self.queue.head(now_s)
        assert head is not None
        self.queue.admit(head, now_s)
        head.start(now_s)
        end = len(head.known_ids)
        self.queue.charge(head.request.tier, head.request.tenant, head.bill(end))
        self.queue.end(head)
        return head

    def order(self, now_s: float = 1.0) -> list[Sequence]:
        return [self.take(now_s) for _ in range(len(self.queue))]


def test_one_tenant_is_served_in_order_of_arrival() -> None:
    line = Line()
    made = [line.add() for _ in range(5)]
    assert line.order() == made
    assert line.queue.head(0.0) is None


UNSAID_S = {Tier.INTERACTIVE: 1.0, Tier.BATCH: 10.0}  # a tenth of the maximum wait, as documented


def test_deadlines_break_ties_and_none_is_a_tenth_of_the_maximum_wait() -> None:
    line = Line()
    late, early, none, soon = (line.add(deadline_s=d) for d in (3.0, 0.3, float("inf"), 0.3))
    assert line.order() == [early, soon, none, late]


COMERS = st.lists(
    st.tuples(st.floats(0, 2), st.none() | st.floats(0.001, 20)), min_size=2, max_size=12
)


@pytest.mark.behaviour(
    "whoever names a deadline gains a tenth of the tier's maximum wait at most, for any value",
    report="own finding: a header of 1 ms put its call before all that waited without one",
)
@given(comers=COMERS, tier=st.sampled_from(Tier))
@settings(deadline=None, max_examples=60)
def test_what_a_deadline_gains(comers: list[tuple[float, float | None]], tier: Tier) -> None:
    """Each comes `gap_s` after the one before; all wait when the first of them is taken."""
    line, now_s, wanted_s = Line(), 0.0, {}
    for gap_s, wanted in comers:
        now_s += gap_s
        deadline_s = math.inf if wanted is None else now_s + wanted
        added = line.add(tier=tier, deadline_s=deadline_s, now_s=now_s)
        wanted_s[added] = UNSAID_S[tier] if wanted is None else wanted
    order = line.order(now_s)
    is_due = {each: each.ticket.due_s <= now_s for each in order}
    for first, then in itertools.combinations(order, 2):
        earlier_s = first.ticket.received_s - then.ticket.received_s
        if is_due[first] or is_due[then]:
            assert is_due[first] >= is_due[then]
            assert not is_due[then] or earlier_s <= 0
        elif earlier_s > 0:
            assert earlier_s <= wanted_s[then] - wanted_s[first] + 1e-9
        elif not earlier_s:
            assert wanted_s[first] <= wanted_s[then] + 1e-9


def test_of_tenants_served_alike_the_nearest_deadline_goes_first() -> None:
    line = Line()
    line.add("a")
    urgent = line.add("b", deadline_s=0.5)
    assert line.take() is urgent


@pytest.mark.behaviour(
    "tenants take turns by tokens served: one that queues much does not hold up the others",
    report="no peer has a per-tenant share: a flood of one client delays every other",
)
def test_a_flood_does_not_hold_up_other_tenants() -> None:
    line = Line()
    flood = [line.add("flood") for _ in range(100)]
    line.take()
    other = line.add("other")
    assert [line.take(), line.take()] == [flood[1], other]  # served alike: first come


def test_tenants_are_served_by_weight_and_tokens() -> None:
    line = Line(tenant_weights=(("heavy", 3.0),))
    for _ in range(40):
        line.add("heavy", prompt=20)
        line.add("light", prompt=10)
    served = {"heavy": 0, "light": 0}
    for _ in range(40):
        sequence = line.take()
        served[sequence.request.tenant] += len(sequence.known_ids)
    assert served["heavy"] / served["light"] == pytest.approx(3.0, rel=0.1)


def test_a_pause_earns_no_credit() -> None:
    line = Line()
    for _ in range(50):
        line.add("busy")
    for _ in range(30):
        line.take()
    for _ in range(50):
        line.add("back")
    turns = [line.take().request.tenant for _ in range(20)]
    assert turns.count("back") == 10


def test_interactive_goes_first_and_batch_gets_its_weight() -> None:
    line = Line(batch_weight=0.25)
    for _ in range(100):
        line.add(tier=Tier.BATCH)
        line.add(tier=Tier.INTERACTIVE)
    tiers = [line.take().request.tier for _ in range(50)]
    assert tiers[0] is Tier.INTERACTIVE
    assert tiers.count(Tier.BATCH) == 10
    assert max(len(run) for run in "".join(t[0] for t in tiers).split("b")) <= 4


@pytest.mark.behaviour(
    "after its tier's maximum wait nothing of its tier overtakes a request",
    report="vllm #20608: no ageing; a request that keeps being overtaken",
)
@pytest.mark.parametrize("tier", Tier)
def test_who_is_due_is_overtaken_by_none_of_its_tier(tier: Tier) -> None:
    line = Line(tenant_weights=(("poor", 0.001),))
    poor = [line.add("poor", tier=tier, prompt=100) for _ in range(3)]
    max_wait_s = MAX_WAIT_S[tier]
    flood = [line.add("rich", tier=tier, now_s=max_wait_s - 5 + each) for each in range(20)]
    assert line.take(now_s=max_wait_s - 1) is poor[0]  # served alike so far
    assert line.take(now_s=max_wait_s - 1) is flood[0]
    assert [line.take(now_s=max_wait_s) for _ in range(3)] == [poor[1], poor[2], flood[1]]


@pytest.mark.behaviour(
    "beside a batch backlog of any age the interactive tier keeps its share",
    report="own risk: a backlog past its maximum wait shut interactive requests out",
)
def test_a_due_batch_backlog_leaves_interactive_its_share() -> None:
    line = Line(batch_weight=0.25)
    for _ in range(100):
        line.add(tier=Tier.BATCH)
    for _ in range(100):
        line.add(now_s=995.0)
    tiers = [line.take(now_s=1000.0).request.tier for _ in range(50)]
    assert tiers.count(Tier.BATCH) == pytest.approx(10, abs=1)


@pytest.mark.parametrize("tier", Tier)
def test_a_due_request_goes_first_where_nothing_of_its_tier_got_in_for_long(tier: Tier) -> None:
    other = Tier.BATCH if tier is Tier.INTERACTIVE else Tier.INTERACTIVE
    line = Line()
    for _ in range(4):
        line.add(tier=tier)
        line.add(tier=other, now_s=95.0)
    line.queue.charge(tier, "", 1e6)
    assert line.take(now_s=9.0).request.tier is other
    took = [line.take(now_s).request.tier for now_s in (101.0, 101.0, 110.0, 111.5)]
    assert took == [tier, other, other, tier]


@pytest.mark.behaviour(
    "a preempted request keeps its place among its tenant's and takes none from other tenants",
    report="own risk: one tenant's preempted requests outranked every other tenant",
)
def test_who_was_preempted_has_its_old_place_among_its_own() -> None:
    line = Line()
    first, second = line.add("a", prompt=50), line.add("a", prompt=50)
    for sequence in (first, second):
        line.queue.admit(sequence, 0.0)
        line.queue.charge(Tier.INTERACTIVE, "a", sequence.bill(50))
    later = line.add("a")
    other = [line.add("b") for _ in range(3)]
    line.queue.charge(Tier.INTERACTIVE, "a", 30)
    for sequence in (second, first):
        line.queue.resume(sequence)
    assert line.queue.count(Tier.INTERACTIVE) == 6
    assert line.order() == [*other, first, second, later]


def test_counts() -> None:
    line = Line()
    line.add(prompt=5)
    batch = line.add(prompt=7, tier=Tier.BATCH)
    queue = line.queue
    assert (len(queue), queue.count(Tier.BATCH), queue.tokens(Tier.BATCH)) == (2, 1, 7)
    assert (queue.get(batch.request_id), queue.get(99)) == (batch, None)
    queue.remove(batch)
    queue.end(batch)
    assert (len(queue), queue.count(Tier.BATCH), queue.tokens(Tier.BATCH)) == (1, 0, 0)


def test_tenants_that_are_gone_are_forgotten() -> None:
    line = Line()
    for index in range(1000):
        line.add(f"tenant {index}", prompt=1 + index % 7)
        line.take()
    assert line.queue.num_tenants(Tier.INTERACTIVE) < 5


@pytest.mark.behaviour(
    "what was charged ahead and is given back never becomes credit of a tenant that paused",
    report="own risk: requests kept running over a pause and aborted after it paid for a burst",
)
def test_a_pause_with_requests_running_earns_no_credit() -> None:
    line = Line()
    held = [line.add("sly", max_tokens=500) for _ in range(4)]
    for sequence in held:
        line.queue.admit(sequence, 0.0)
    for _ in range(80):
        line.add("busy", prompt=50)
    for _ in range(60):
        line.take()
    for _ in range(30):
        line.add("sly", prompt=50)
    for sequence in held:
        line.queue.end(sequence)
    turns = [line.take().request.tenant for _ in range(20)]
    assert turns.count("sly") == 10


@pytest.mark.behaviour(
    "of what was charged ahead only what came after its tenant was last put level is given back",
    report="own risk: after a top-up past a pause 96 tokens a request of before became credit",
)
def test_a_top_up_after_a_pause_makes_nothing_of_before_credit() -> None:
    line = Line()
    held = [line.add("sly", max_tokens=500) for _ in range(4)]
    for sequence in held:
        line.queue.admit(sequence, 0.0)
        sequence.admit(0, [1], 16)
    for _ in range(80):
        line.add("busy", prompt=50)
    for _ in range(60):
        line.take()
    line.add("sly")
    level = line.queue.share(Tier.INTERACTIVE, "sly").tag
    for sequence in held:
        sequence.num_computed = sequence.num_prompt_tokens + 40
        line.queue.charge_ahead(sequence, sequence.bill_decode())
    assert line.queue.share(Tier.INTERACTIVE, "sly").tag == level + 4 * 41
    for sequence in held:
        line.queue.end(sequence)
    assert line.queue.share(Tier.INTERACTIVE, "sly").tag == level


def test_what_was_charged_ahead_is_given_back_to_tenant_and_tier() -> None:
    line = Line()
    first = line.add("a", max_tokens=500)
    line.add("a")
    line.add("b")
    line.queue.admit(first, 0.0)
    line.queue.charge(Tier.INTERACTIVE, "b", 5)
    assert line.queue.share(Tier.INTERACTIVE, "a").tag > 100
    line.queue.end(first)
    assert line.queue.share(Tier.INTERACTIVE, "a").tag == 0
    assert line.queue.split(10) == {Tier.INTERACTIVE: 7, Tier.BATCH: 3}


def test_a_tenant_cannot_shed_its_debt_by_leaving() -> None:
    line = Line()
    line.add("greedy", prompt=100)
    line.add("other")
    line.add("other")
    line.take()
    line.take()  # greedy has had 100 tokens and nothing waits for it
    line.add("greedy")
    assert line.take().request.tenant == "other"
