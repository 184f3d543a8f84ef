from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.replicas.limits import ordered
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.window import Counter, StepClass
from tests.operator.autopilot.build import auto, fleet, moments, pod, window

STEPS = {StepClass.MIXED: moments(*[(100, 2, 400, 5000, 0.03)] * 5)}


def learn(seen: FleetObservation, memory: Memory | None = None, now_s: float = 1000.0) -> Memory:
    return learned(auto(), seen, memory or Memory(), now_s)


def test_a_slice_is_learned_from_once() -> None:
    seen = fleet(slices=(window(steps=STEPS),))
    once = learn(seen)
    assert once.prefill_fit.steps == 5
    assert learn(seen, once) == once


def test_another_template_is_another_plant() -> None:
    seen = fleet(slices=(window(steps=STEPS),), template_hash="a")
    known = replace(learn(seen), cold_starts_s=(9.0,), capacity_factor=0.5)
    other = learn(replace(seen, template_hash="b"), known)
    assert other.prefill_fit.steps == 0
    assert other.cold_starts_s == ()
    assert other.capacity_factor == 1.0


def of_resources(*each: str) -> FleetObservation:
    pods = tuple(pod(n, resources=text, template_hash="a") for n, text in enumerate(each))
    return fleet(pods=pods, template_hash="a")


@pytest.mark.parametrize(
    ("resources", "steps"),
    [
        (("cpu=1", "cpu=1"), 5),
        (("cpu=2", "cpu=2"), 0),
        (("cpu=1", "cpu=2", "cpu=1"), 5),
        (("", ""), 5),
    ],
    ids=["same", "resized in place", "one of three", "nobody says"],
)
def test_other_resources_are_another_plant(resources: tuple[str, ...], steps: int) -> None:
    begun = replace(of_resources("cpu=1", "cpu=1"), slices=(window(steps=STEPS),))
    known = learn(begun)
    assert known.resources == "cpu=1"
    after = learn(of_resources(*resources), known, 1005.0)
    assert (after.prefill_fit.steps, after.template_hash) == (steps, "a")


def test_resources_are_remembered_while_no_pod_tells_of_them() -> None:
    known = learn(of_resources("cpu=1"))
    silent = learn(of_resources(), known, 1005.0)
    assert silent.resources == "cpu=1"


def test_a_cold_start_is_measured_once_the_pod_serves() -> None:
    starting = pod(2, ready=False, ready_since_s=None, created_s=980.0)
    memory = learn(fleet(pods=(pod(1), starting)))
    assert memory.cold_starts_s == ()
    serving = replace(starting, ready=True, ready_since_s=992.0)
    memory = learn(fleet(pods=(pod(1), serving)), memory)
    assert memory.cold_starts_s == (12.0,)
    assert learn(fleet(pods=(pod(1), serving)), memory).cold_starts_s == (12.0,)


def test_a_pod_first_seen_ready_tells_nothing() -> None:
    """A restarted operator does not know whether it was ready before."""
    assert learn(fleet()).cold_starts_s == ()


def test_a_pod_that_is_unready_for_a_moment_does_not_start_anew() -> None:
    blinking = pod(1, ready=False, ready_since_s=None, created_s=100.0)
    memory = learn(fleet(pods=(blinking,)))
    back = replace(blinking, ready=True, ready_since_s=1004.0)
    assert learn(fleet(pods=(back,)), memory, 1005.0).cold_starts_s == ()


def test_a_young_pod_that_served_before_does_not_start_anew() -> None:
    young = pod(1, ready_since_s=985.0, created_s=970.0)
    memory = learn(fleet(pods=(young,)))
    memory = learn(fleet(pods=(replace(young, ready=False),)), memory, 1005.0)
    assert learn(fleet(pods=(young,)), memory, 1010.0).cold_starts_s == ()


def test_a_start_that_took_for_ever_counts_no_longer_than_the_longest() -> None:
    starting = pod(2, ready=False, ready_since_s=None, created_s=990.0)
    memory = learn(fleet(pods=(starting,)))
    memory = learn(fleet(pods=(starting,)), memory, 5000.0)
    served = replace(starting, ready=True, ready_since_s=9000.0)
    assert learn(fleet(pods=(served,)), memory, 9000.0).cold_starts_s == (900.0,)


def running(*budgets: int) -> FleetObservation:
    """Engines with these budgets in force, and full steps in the newest slice."""
    full = window(counters={Counter.STEPS_AT_BUDGET: 3.0})
    base = pod().tunables
    assert base is not None
    pods = (
        pod(n, tunables=replace(base, effective=budget) if budget else None)
        for n, budget in enumerate(budgets)
    )
    knobs = Tunables(max_num_batched_tokens=640, max_num_running_seqs=64)
    return fleet(pods=tuple(pods), slices=(full,), desired_tunables=knobs)


AGREED = Memory(acknowledged_budget=640, acknowledged_at_s=995.0)


def test_a_budget_is_proven_by_full_steps_after_all_engines_took_it() -> None:
    assert learn(running(640, 640), AGREED).proven_budget == 640
    larger = replace(AGREED, proven_budget=1024, proven_at_s=900.0)
    assert learn(running(640, 640), larger).proven_budget == 1024


@pytest.mark.parametrize("budgets", [(512, 512), (640, 512), (640, 0), ()])
def test_a_budget_is_not_proven_by_engines_without_it(budgets: tuple[int, ...]) -> None:
    """The slice that a move ends, or begins, ran with the old budget at least in part."""
    assert learn(running(*budgets), AGREED).proven_budget == 0
    assert learn(running(640, 640), Memory(raised_at_s=995.0)).proven_budget == 0


def test_what_itl_refused_of_another_template_is_forgotten() -> None:
    memory = Memory(template_hash="old", refused_budget=112, refused_at_s=900.0)
    assert learned(auto(), fleet(template_hash="old"), memory, 950.0).refused_budget == 112
    assert learned(auto(), fleet(template_hash="new"), memory, 950.0).refused_budget == 0


def test_manual_replicas_are_dated() -> None:
    given = auto(replicas=4)
    memory = learned(given, fleet(), Memory(), 500.0)
    assert (memory.manual_replicas, memory.manual_since_s) == (4, 500.0)
    assert learned(given, fleet(), memory, 900.0).manual_since_s == 500.0
    assert learned(auto(replicas=5), fleet(), memory, 900.0).manual_since_s == 900.0


def test_a_deployment_that_is_missing_unteaches_nothing() -> None:
    memory = Memory(template_hash="a", refused_budget=112, refused_at_s=900.0)
    gone = learned(auto(), fleet(template_hash=""), memory, 950.0)
    assert (gone.template_hash, gone.refused_budget) == ("a", 112)
    assert learned(auto(), fleet(template_hash="a"), gone, 960.0).refused_budget == 112


def test_since_when_the_installation_holds_the_replicas_is_remembered() -> None:
    braked = replace(auto(), is_braked=True)
    first = learned(braked, fleet(), Memory(), 950.0)
    assert learned(braked, fleet(), first, 960.0).capped_since_s == 950.0
    assert learned(auto(), fleet(), first, 960.0).capped_since_s is None


@pytest.mark.parametrize(
    ("known", "asked", "order"), [(1, 4, 4), (4, 4, None), (None, 4, None)],
    ids=["changed in the same pass", "as before", "never seen before"],
)  # fmt: skip
def test_what_is_an_order_where_the_brake_is_seen_for_the_first_time(
    known: int | None, asked: int, order: int | None
) -> None:
    braked = replace(auto(replicas=asked), is_braked=True)
    before = Memory(manual_replicas=known, manual_since_s=100.0)
    assert ordered(braked, learned(braked, fleet(), before, 950.0)) == order
