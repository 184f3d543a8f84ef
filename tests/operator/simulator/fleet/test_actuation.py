from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.autopilot.vocabulary.fleet import PodTunables
from paceline_operator.autopilot.vocabulary.window import StepClass, merge
from paceline_operator.simulator.fleet.faults import (
    Autoscaled,
    Fault,
    OperatorAway,
    PushesIgnored,
    PushesLost,
    ScaleWritten,
    ValuesKept,
)
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.scoring.outcome import COMPLETED
from tests.operator.simulator.fleets import Scripted, engine, knobs, poisson, run, to

ONE = frozenset({1})


def reported(law: Scripted, at_s: float) -> list[tuple[int, int]]:
    """Budget and revision that each pod reports."""
    found: list[PodTunables | None] = [pod.tunables for pod in law.at(at_s).pods]
    return [(each.effective, each.revision) for each in found if each is not None]


def test_live_values_reach_all_engines_under_a_new_revision() -> None:
    law = Scripted({10.0: knobs(256, 16)})
    result = run(poisson(2.0, 30.0), law, until_s=30.0)
    assert reported(law, 10.0) == [(512, 0), (512, 0)]
    assert reported(law, 15.0) == [(256, 1), (256, 1)]
    seqs = [pod.tunables.running_seqs for pod in law.at(15.0).pods if pod.tunables]
    assert seqs == [16, 16]
    assert [(m.knob, m.before, m.after) for m in result.moves] == [
        (Knob.BUDGET, 512, 256),
        (Knob.RUNNING_SEQS, 32, 16),
    ]
    assert [s.budget for s in result.samples if s.time_s in (5.0, 10.0)] == [512, 256]


def test_a_new_pod_begins_with_what_its_peers_run_with() -> None:
    law = Scripted({10.0: knobs(256), 20.0: to(3)})
    run(poisson(2.0, 60.0), law, until_s=60.0)
    assert reported(law, 45.0) == [(256, 1)] * 3


def test_a_push_that_failed_is_tried_again_later_each_time() -> None:
    law = Scripted({10.0: knobs(256)})
    run(poisson(2.0, 60.0), law, until_s=60.0,
        faults=[PushesLost(start_s=0.0, end_s=30.0, pods=ONE)])  # fmt: skip
    assert reported(law, 30.0) == [(512, 0), (256, 1)]
    assert reported(law, 45.0) == [(256, 1), (256, 1)]


def test_an_engine_that_reports_its_old_values_is_sent_the_new_ones_ever_less_often() -> None:
    law = Scripted({10.0: knobs(256)})
    kept = [ValuesKept(start_s=0.0, end_s=60.0, pods=ONE)]
    result = run(poisson(2.0, 100.0), law, until_s=100.0, faults=kept)
    assert reported(law, 40.0) == [(512, 1), (256, 1)]
    # At 10, 11, 13, 17, 25 and 41 s to the one, once to the other; at 73 s it takes them.
    assert result.pushes == 8
    assert reported(law, 95.0) == [(256, 1), (256, 1)]


@pytest.mark.parametrize(("faults", "chunk"), [([], 256.0), ([PushesIgnored(start_s=0.0)], 512.0)])
def test_an_engine_may_only_say_that_it_took_them(faults: list[Fault], chunk: float) -> None:
    law = Scripted({10.0: knobs(256)})
    alone = [Request(20.0 + 2.0 * place, 1024, 1) for place in range(10)]
    run(iter(alone), law, until_s=50.0, faults=faults, engine=engine(prefix_caching=False))
    assert reported(law, 15.0) == [(256, 1), (256, 1)]
    steps = merge(law.at(45.0).slices).moments(StepClass.PREFILL_ONLY)
    assert steps.mean("p") == chunk


def long_answers(number: int, tokens: int) -> list[Request]:
    return [Request(0.2 + 0.1 * place, 50, tokens) for place in range(number)]


def test_a_victim_leaves_once_it_is_empty() -> None:
    """Answers of about 24 s; both pods have two: one drains from second 10 until they end."""
    law = Scripted({10.0: to(1)})
    result = run(iter(long_answers(4, 2200)), law, until_s=60.0)
    seen = [(law.at(at_s).pods, at_s) for at_s in (15.0, 20.0, 40.0)]
    assert [len(pods) for pods, _ in seen] == [2, 2, 1]
    assert [sum(pod.draining for pod in pods) for pods, _ in seen] == [1, 1, 0]
    assert [o.outcome for o in result.outcomes] == [COMPLETED] * 4
    assert result.cut == 0


def test_a_drain_that_takes_too_long_is_undone_and_tried_again() -> None:
    law = Scripted({10.0: to(1)})
    result = run(iter(long_answers(2, 3800)), law, until_s=120.0, drain_s=10.0)
    draining = [(s.now_s - 1000.0, sum(p.draining for p in s.pods)) for s in law.seen]
    assert [at_s for at_s, number in draining if number] == [15.0, 20.0, 25.0, 95.0]
    assert [s.ready for s in result.samples if s.time_s in (20.0, 30.0, 85.0)] == [1, 2, 2]
    assert [o.outcome for o in result.outcomes] == [COMPLETED] * 2
    assert result.samples[-1].existing == 1


def test_one_foreign_write_stands_for_a_minute() -> None:
    law = Scripted({20.0: to(3)})
    result = run(iter([]), law, until_s=100.0, faults=[ScaleWritten(at_s=12.0, replicas=4)])
    assert law.told == ["disturbed at 15"]
    assert [law.at(at_s).desired_replicas for at_s in (10.0, 15.0, 25.0)] == [2, 4, 3]
    left = {at_s: dict(law.at(at_s).yielded) for at_s in (10.0, 15.0, 20.0, 75.0)}
    assert left == {10.0: {}, 15.0: {"replicas": "somebody"}, 20.0: {"replicas": "somebody"},
                    75.0: {}}  # fmt: skip
    assert result.samples[-1].ready == 3


def test_whoever_writes_twice_is_left_the_replicas() -> None:
    law = Scripted({40.0: to(1)})
    twice = [ScaleWritten(at_s=12.0, replicas=4), ScaleWritten(at_s=32.0, replicas=3)]
    result = run(iter([]), law, until_s=100.0, faults=twice)
    assert law.at(95.0).yielded == {"replicas": "somebody"}
    assert law.at(95.0).desired_replicas == 3
    assert result.moves == []


def test_replicas_are_left_to_an_autoscaler_until_ten_minutes_after_it_is_gone() -> None:
    law = Scripted({40.0: to(1), 690.0: to(3)})
    autoscaler = [Autoscaled(start_s=12.0, end_s=80.0, replicas=4)]
    result = run(iter([]), law, until_s=720.0, faults=autoscaler)
    left = [law.at(at_s).yielded.get("replicas") for at_s in (10.0, 15.0, 660.0, 685.0)]
    assert left == [None, autoscaler[0].name, autoscaler[0].name, None]
    assert law.at(660.0).desired_replicas == 4
    assert [move.after for move in result.moves] == [3]


@pytest.mark.parametrize("away_s", [0.0, 20.0])
def test_the_next_operator_knows_what_the_cluster_keeps(away_s: float) -> None:
    law = Scripted({10.0: knobs(256), 11.0: to(3)})
    away = [OperatorAway(start_s=32.0, end_s=32.0 + away_s)]
    run(poisson(4.0, 90.0), law, until_s=90.0, faults=away)
    asked = [seen.now_s - 1000.0 for seen in law.seen]
    assert [at_s for at_s in asked if 30.0 < at_s < 60.0] == [
        at_s for at_s in (35.0, 40.0, 45.0, 50.0, 55.0) if at_s >= 32.0 + away_s
    ]
    assert law.told == ["restarted"]
    first = law.at(32.0 + away_s)
    assert first.slices == ()
    assert first.desired_replicas == 3
    assert set(reported(law, 32.0 + away_s)) == {(256, 1)}
    assert len(law.at(first.now_s - 1000.0 + 5.0).slices) == 1


def test_a_drain_outlives_the_operator_that_began_it() -> None:
    more: dict[str, Any] = {"faults": [OperatorAway(start_s=12.0, end_s=17.0)], "until_s": 60.0}
    law = Scripted({10.0: to(1)})
    result = run(iter(long_answers(4, 2200)), law, **more)
    assert [law.at(at_s).desired_replicas for at_s in (20.0, 40.0)] == [1, 1]
    assert result.samples[-1].existing == 1
    assert result.cut == 0


def test_what_somebody_wrote_meanwhile_is_not_written_over() -> None:
    law = Scripted({10.0: to(3)})
    meanwhile = [ScaleWritten(at_s=11.0, replicas=4)]
    run(iter([]), law, until_s=40.0, faults=meanwhile, scale_delay_s=2.0)
    assert [law.at(at_s).desired_replicas for at_s in (15.0, 35.0)] == [4, 4]
    assert len(law.at(35.0).pods) == 4


def test_the_least_loaded_pod_leaves() -> None:
    """Where nothing is known of loads, the first by name would go."""
    law = Scripted({10.0: to(1)})
    run(iter([Request(0.2, 50, 2200)]), law, until_s=40.0)
    assert [pod.running for pod in law.at(10.0).pods] == [1, 0]
    assert [pod.name for pod in law.at(35.0).pods] == ["pod-1"]
