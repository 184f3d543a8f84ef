from __future__ import annotations

from functools import partial
from math import inf

from paceline_operator.simulator.fleet.agenda import Agenda


def test_events_happen_in_order_of_time_then_of_putting_down() -> None:
    agenda, happened = Agenda(), list[tuple[str, float]]()

    def note(name: str, now_s: float) -> None:
        happened.append((name, now_s))

    for name, at_s in (("late", 2.0), ("first", 1.0), ("second", 1.0), ("never", inf)):
        agenda.at(at_s, partial(note, name))
    while agenda.next_s < inf:
        agenda.run_next()
    assert happened == [("first", 1.0), ("second", 1.0), ("late", 2.0)]


def test_an_event_may_put_down_the_next() -> None:
    agenda, happened = Agenda(), list[float]()

    def again(now_s: float) -> None:
        happened.append(now_s)
        if now_s < 3.0:
            agenda.at(now_s + 1.0, again)

    agenda.at(1.0, again)
    while agenda.next_s < inf:
        agenda.run_next()
    assert happened == [1.0, 2.0, 3.0]
