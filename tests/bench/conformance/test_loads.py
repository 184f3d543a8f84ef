from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from bench.conformance.load_case import LoadCase
from bench.conformance.loads import loads, traces_word
from bench.conformance.seeded_loads import seeded_loads
from bench.conformance.shape import Shape, measure
from bench.conformance.sizing import replicas
from bench.conformance.trace_loads import RECIPES, _in_laps, trace_load
from paceline_operator.simulator.loads.trace import TraceError

SEEDED = seeded_loads()
HEADER = "arrival_s,prompt_tokens,output_tokens\n"


def write(folder: Path, name: str, rows: int = 400, tokens: int = 1000) -> Path:
    """Requests on a grid of 3 s."""
    path = folder / name
    path.write_text(HEADER + "".join(f"{n * 3},{tokens},200\n" for n in range(rows)))
    return path


@pytest.mark.parametrize("case", SEEDED, ids=lambda case: case.name)
def test_a_load_lasts_ten_slow_cold_starts_and_comes_again(case: LoadCase) -> None:
    assert case.duration_s >= 10 * 300
    once, again = (list(islice(case.play(Random(3)), 20)) for _ in range(2))
    assert once == again


@pytest.mark.parametrize("case", SEEDED, ids=lambda case: case.name)
def test_an_idle_engine_holds_both_targets(case: LoadCase) -> None:
    """The longest of some prompts alone takes half of its time in steps that hold the gaps."""
    service, law = case.service, case.service.accelerator.law
    budget = max(b for b in range(64, 8193, 16) if law.step_ms(b, 0, 20_000, 0) <= service.itl_ms)
    longest = max(r.prompt_tokens for r in islice(case.play(Random(1)), 2000))
    steps = -(-longest // budget)
    assert steps * law.step_ms(budget, 0, 20_000, 0) <= service.ttft_ms / 2


def test_three_loads_change_their_regime() -> None:
    assert [case.name for case in SEEDED if case.changes_regime] == [
        "8k-context", "hit-rate-drop", "slower-steps",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["8k-context", "hit-rate-drop"])
def test_a_step_up_is_one(name: str) -> None:
    case = next(case for case in SEEDED if case.name == name)
    [step_s] = case.steps_up_at_s
    shape = measure(case.play(Random(1)))
    place = int(step_s // 300)
    parts = [replicas(case.service, stretch(shape, at)) for at in (place - 1, place)]
    assert 2 * parts[0][0] < parts[1][0] < 12


def test_what_comes_back_after_a_silence_is_a_step_up() -> None:
    case = next(case for case in SEEDED if case.name == "on-off")
    [step_s] = case.steps_up_at_s
    arrivals = [request.arrival_s for request in case.play(Random(1))]
    before = max(each for each in arrivals if each < step_s)
    after = min(each for each in arrivals if each >= step_s)
    assert step_s - before > 890
    assert after - step_s < 5


def test_a_step_of_a_trace_comes_again_with_each_lap() -> None:
    assert _in_laps((600.0,), 2400.0, 4800.0) == (600.0, 3000.0)
    assert _in_laps((), 2400.0, 4800.0) == ()


def stretch(shape: Shape, place: int) -> Shape:
    return replace(shape, stretches=shape.stretches[place : place + 1])


def test_without_traces_the_list_says_so() -> None:
    found = loads(None)
    assert traces_word(found) == "none"
    assert len({case.name for case in found}) == len(found) == len(SEEDED)


def test_traces_are_added_by_name(tmp_path: Path) -> None:
    write(tmp_path, "mine.csv")
    write(tmp_path, "azure2023_conv.csv")
    found = loads(tmp_path)
    assert [case.name for case in found[: len(SEEDED)]] == [case.name for case in SEEDED]
    assert traces_word(found) == "azure2023_conv,mine"
    assert found[-2].service == RECIPES["azure2023_conv"].service


def test_a_bad_trace_ends_it(tmp_path: Path) -> None:
    write(tmp_path, "mine.csv").write_text(HEADER + "0,0,0\n")
    with pytest.raises(TraceError, match=r"mine\.csv:2: prompt_tokens is '0'"):
        loads(tmp_path)


def test_a_known_trace_is_multiplied_and_looped(tmp_path: Path) -> None:
    """1,200 s of it: three laps of five copies."""
    case = trace_load(write(tmp_path, "azure2023_conv.csv"))
    requests = list(case.play(Random(1)))
    assert case.duration_s == 3600.0
    assert len(requests) == 5 * 3 * 400
    assert requests == list(case.play(Random(1)))
    assert requests != list(case.play(Random(2)))


@pytest.mark.parametrize(
    ("most", "duration_s", "left_out_s"),
    [(None, 3600.0, 0.0), (10**6, 3600.0, 0.0), (1, 3000.0, 600.0)],
)
def test_of_an_unknown_trace_no_more_is_played_than_is_asked_for(
    tmp_path: Path, most: int | None, duration_s: float, left_out_s: float
) -> None:
    """Ten cold starts at least; a trace that is known is played whole."""
    case = trace_load(write(tmp_path, "mine.csv", tokens=9000), most)
    assert (case.duration_s, case.left_out_s) == (duration_s, left_out_s)
    assert duration_s - 10.0 < max(r.arrival_s for r in case.play(Random(1))) < duration_s
    known = trace_load(write(tmp_path, "azure2023_conv.csv"), most)
    assert (known.duration_s, known.left_out_s) == (3600.0, 0.0)


def test_an_unknown_trace_is_sized_and_taken_off_its_grid(tmp_path: Path) -> None:
    case = trace_load(write(tmp_path, "mine.csv", tokens=9000))
    requests = list(case.play(Random(1)))
    assert 2.5 < replicas(case.service, measure(requests))[0] < 5.5
    assert max(r.arrival_s for r in requests) < case.duration_s
    assert measure(requests).grid_s < 1.0
    assert sum(r.arrival_s % 3.0 < 0.3 for r in requests) < 0.2 * len(requests)
