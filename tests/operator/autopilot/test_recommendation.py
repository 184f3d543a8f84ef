from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.memory import Memory
from paceline_operator.autopilot.recommendation import peak, recorded
from paceline_operator.autopilot.situation import understand
from tests.operator.autopilot.build import auto, fleet


def record(values: list[int], every_s: float = 15.0) -> Memory:
    memory, given_policy = Memory(cold_starts_s=(10.0,)), auto(down_window_s=60.0)
    for number, value in enumerate(values):
        s = understand(given_policy, fleet(), memory, 1000 + every_s * number)
        memory = recorded(s, memory, value)
        memory = Memory(
            cold_starts_s=(10.0,),
            recommended=memory.recommended,
            recommending_since_s=memory.recommending_since_s,
            replica_at_s=s.now_s,
        )
    return memory


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_the_peak_is_that_of_the_window(values: list[int]) -> None:
    memory = record(values)
    assert peak(memory) == max(values[-4:])  # 60 s hold four values 15 s apart
    assert len(memory.recommended) <= 4


def test_a_gap_starts_the_record_anew() -> None:
    assert record([3, 3, 3]).recommending_since_s == 1000
    assert record([3, 3, 3], every_s=120.0).recommending_since_s == 1240
