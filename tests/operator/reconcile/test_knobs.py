"""The live knobs of one pass: what is agreed, under which revision, and who is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.api.status import BudgetStatus, InferenceServiceStatus
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain import tunables
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile import knobs
from paceline_operator.reconcile.observed import Observed
from tests.operator.reconcile.test_decide import OFF, REPORT, A, B, seen, status
from tests.support.fleet import NOW_S, spec


def agreed_of(observed: Observed) -> tuple[Agreed, bool]:
    assert observed.spec is not None
    return knobs.agree(
        observed, observed.spec, knobs.present(observed, observed.spec), None, observed.memory
    )


SLO = {"name": "ttft", "metric": "TTFT", "targetMs": 500}
WITH_SLO = spec(**OFF, replicas=2, slos=[SLO])


def test_the_same_values_need_no_revision() -> None:
    agreed, announce = agreed_of(seen())
    assert (agreed.revision, announce) == (0, False)


def test_new_objectives_need_one() -> None:
    agreed, announce = agreed_of(seen(spec=WITH_SLO))
    assert (agreed.revision, announce) == (0, False)  # the fleet began with them
    stored = status(tunables.initial(spec(**OFF)))
    agreed, announce = agreed_of(seen(spec=WITH_SLO, status=stored))
    assert (agreed.revision, announce) == (1, True)


def test_objectives_taken_back_before_all_engines_had_them_need_one_too() -> None:
    first = tunables.initial(spec(**OFF))
    pushed = status(Agreed(1, first.knobs, WITH_SLO.slos))
    agreed, announce = agreed_of(seen(status=pushed))
    assert (agreed.revision, agreed.slos, announce) == (2, (), True)


def test_the_revision_goes_on_from_the_highest_an_engine_knows() -> None:
    ahead = {A.uid: replace(REPORT, revision=41), B.uid: REPORT}
    agreed, announce = agreed_of(seen(reports=ahead))
    assert (agreed.revision, announce) == (42, True)


@pytest.mark.behaviour(
    "a revision after which there is none is not followed: its engine stays behind",
    report="one engine that reports a huge revision made the fleet's revision jump past counting",
)
@pytest.mark.parametrize(
    ("reported", "expected"),
    [(2**53 - 1, (2**53, True)), (2**53, (0, False)), (2**63 - 1, (0, False))],
)
def test_a_revision_that_has_no_next_is_not_followed(
    reported: int, expected: tuple[int, bool]
) -> None:
    jumped = {A.uid: replace(REPORT, revision=reported), B.uid: REPORT}
    observed = seen(reports=jumped)
    agreed, announce = agreed_of(observed)
    assert (agreed.revision, announce) == expected
    assert A in knobs.behind(observed, agreed)
    assert knobs.budget_status(observed, agreed).acknowledged == (0 if announce else 1)


def test_a_revision_that_has_no_next_hides_no_other() -> None:
    reports = {A.uid: replace(REPORT, revision=2**60), B.uid: replace(REPORT, revision=41)}
    assert agreed_of(seen(reports=reports))[0].revision == 42


def test_a_lost_status_is_found_again_in_the_config_map() -> None:
    first = tunables.initial(spec(**OFF))
    stored = replace(first, revision=7)
    children = {("ConfigMap", "chat-tunables"): {"data": {"tunables.json": tunables.text(stored)}}}
    reports = {A.uid: replace(REPORT, revision=7), B.uid: replace(REPORT, revision=7)}
    agreed, announce = agreed_of(
        seen(status=InferenceServiceStatus(), children=children, reports=reports)
    )
    assert (agreed.revision, announce) == (7, True)


def test_a_lowered_ceiling_brings_the_knobs_down() -> None:
    lower = spec(
        **OFF, replicas=2, engine={"device": {"type": "Simulated"}, "batchTokens": {"max": 512}}
    )
    stored = status(tunables.initial(spec(**OFF)))
    agreed, announce = agreed_of(seen(spec=lower, status=stored))
    assert (agreed.knobs.max_num_batched_tokens, announce) == (512, True)


RAISED = {"device": {"type": "Simulated"}, "maxNumSeqs": 256, "batchTokens": {"max": 4096}}


@pytest.mark.parametrize(
    ("tuning", "memory", "knobs_wanted"),
    [
        ("Auto", Memory(), (2048, 256)),
        ("Auto", Memory(squeezed_seqs=64), (2048, 64)),
        ("Off", Memory(), (4096, 256)),
    ],
    ids=["the cap is lifted", "a squeeze stays", "Off follows the spec"],
)
def test_a_raised_ceiling_has_an_effect(
    tuning: str, memory: Memory, knobs_wanted: tuple[int, int]
) -> None:
    raised = spec(tuning={"mode": tuning}, replicas=2, engine=RAISED)
    stored = status(tunables.initial(spec(**OFF)))
    more = replace(REPORT, running_ceiling=256)
    given = seen(spec=raised, status=stored, memory=memory, reports={A.uid: more, B.uid: more})
    agreed, announce = agreed_of(given)
    found = agreed.knobs.max_num_batched_tokens, agreed.knobs.max_num_running_seqs
    assert (found, announce) == (knobs_wanted, knobs_wanted != (2048, 64))


@pytest.mark.parametrize(
    ("revisions", "behind"), [((0, 0), []), ((0, 1), ["b"]), ((1, 1), ["a", "b"])]
)
def test_only_engines_that_are_behind_are_told(
    revisions: tuple[int, int], behind: list[str]
) -> None:
    reports = {
        each.uid: replace(REPORT, revision=revision)
        for each, revision in zip((A, B), revisions, strict=True)
    }
    observed = seen(reports=reports)
    agreed = Agreed(0, tunables.initial(spec(**OFF)).knobs)
    assert [each.name for each in knobs.behind(observed, agreed)] == behind


def test_an_engine_that_refused_is_left_alone_for_a_while() -> None:
    reports = {each.uid: replace(REPORT, revision=1) for each in (A, B)}
    observed = seen(reports=reports, waits={A.uid: NOW_S + 0.1, B.uid: NOW_S})
    agreed = Agreed(2, tunables.initial(spec(**OFF)).knobs)
    assert [each.name for each in knobs.behind(observed, agreed)] == ["b"]


def test_an_engine_that_has_not_answered_is_not_counted_as_acknowledged() -> None:
    observed = seen(reports={A.uid: REPORT})
    budget = knobs.budget_status(observed, Agreed(0, tunables.initial(spec(**OFF)).knobs))
    assert (budget.acknowledged, budget.total, budget.effective) == (1, 2, 2048)


def test_starting_engines_get_new_values_once_all_serving_ones_have_them() -> None:
    first = tunables.initial(spec(**OFF))
    new = replace(first, revision=5)
    partly = {A.uid: replace(REPORT, revision=5), B.uid: REPORT}
    assert knobs.for_start(seen(reports=partly), new) == first
    fully = {each.uid: replace(REPORT, revision=5) for each in (A, B)}
    assert knobs.for_start(seen(reports=fully), new) == new


def test_engines_that_have_not_answered_a_new_process_yet_stay_acknowledged() -> None:
    first = tunables.initial(spec(**OFF))
    stored = BudgetStatus(revision=0, desired=512, effective=512, acknowledged=2, total=2)
    took_over = replace(seen(reports={A.uid: REPORT}), is_settling=True)
    took_over = replace(took_over, status=took_over.status.model_copy(update={"budget": stored}))
    assert knobs.budget_status(took_over, first) == stored
    later = replace(took_over, is_settling=False)
    assert knobs.budget_status(later, first).acknowledged == 1


@pytest.mark.behaviour(
    "an engine that takes fewer sequences at once than the spec allows sets the limit for all",
    report="the knobs were brought inside the limits with every pass, and tuned by nothing else",
)
def test_the_least_that_an_engine_takes_is_agreed_and_stays() -> None:
    asked = spec(scaling={"mode": "Off"}, replicas=2)
    reports = {A.uid: replace(REPORT, running_ceiling=63), B.uid: REPORT}
    first, announce = agreed_of(seen(spec=asked, reports=reports))
    assert (first.knobs.max_num_running_seqs, announce) == (63, True)
    settled = seen(spec=asked, reports=reports, status=status(first))
    assert agreed_of(settled) == (first, False)
    back, _ = agreed_of(seen(spec=asked, status=status(first)))
    assert back.knobs.max_num_running_seqs == 64, "once that engine is gone"


@pytest.mark.behaviour(
    "a pod that misses a probe, or is not heard for a while, changes no live value",
    report="each missed probe of the only pod cost two revisions",
)
@pytest.mark.parametrize("is_heard", [True, False])
def test_what_an_engine_takes_is_agreed_also_while_it_does_not_serve(*, is_heard: bool) -> None:
    asked = spec(scaling={"mode": "Off"}, replicas=1)
    least = replace(REPORT, running_seqs=32, running_ceiling=32)
    first, _ = agreed_of(seen(spec=asked, pods=(A,), reports={A.uid: least}))
    assert first.knobs.max_num_running_seqs == 32
    settled = replace(least, revision=first.revision)
    for is_ready in (False, True, False, True):
        reports = {A.uid: settled} if is_ready or is_heard else {}
        pods = (replace(A, ready=is_ready),)
        observed = seen(spec=asked, pods=pods, reports=reports, status=status(first))
        assert agreed_of(observed) == (first, False)


@pytest.mark.parametrize(("most", "agreed_then", "once_heard"), [(16, 16, 16), (128, 64, 128)])
def test_while_no_engine_has_said_what_it_takes_the_cap_only_falls(
    most: int, agreed_then: int, once_heard: int
) -> None:
    engine = {"device": {"type": "Simulated"}, "maxNumSeqs": most}
    asked = spec(scaling={"mode": "Off"}, replicas=1, engine=engine)
    stored = status(tunables.initial(spec(**OFF)))
    unheard, _ = agreed_of(seen(spec=asked, pods=(A,), reports={}, status=stored))
    assert unheard.knobs.max_num_running_seqs == agreed_then
    told = replace(REPORT, running_ceiling=most)
    heard, _ = agreed_of(seen(spec=asked, pods=(A,), reports={A.uid: told}, status=status(unheard)))
    assert heard.knobs.max_num_running_seqs == once_heard
