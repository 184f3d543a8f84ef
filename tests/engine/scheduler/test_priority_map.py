"""The queue gives the smallest first and forgets what was taken out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.scheduler.priority_map import PriorityMap

MOVES = st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(-5, 5)))


@given(MOVES)
def test_like_a_sorted_dictionary(moves: list[tuple[int, int | None]]) -> None:
    made: PriorityMap[int, tuple[int]] = PriorityMap()
    model: dict[int, tuple[int, int]] = {}
    for turn, (item, priority) in enumerate(moves):
        if priority is None:
            assert made.remove(item) == (model.pop(item, None) is not None)
        else:
            made.set(item, (priority,))
            if model.get(item, (None, 0))[0] != priority:
                model[item] = priority, turn
        best = min(model, key=lambda each: model[each], default=None)
        assert made.first() == (None if best is None else ((model[best][0],), best))
        assert len(made) == len(model)
        assert (item in made) == (item in model)
        assert set(made) == set(model)


def test_memory_follows_the_items_and_not_their_history() -> None:
    made: PriorityMap[int, tuple[int]] = PriorityMap()
    made.set(-1, (-1,))
    for item in range(10_000):
        made.set(item, (item,))
        made.remove(item)
    for priority in range(10_000):
        made.set(-1, (-priority,))
    assert len(made._heap) < 100
