from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.simulator import Timing, chat, parser, save, verdict


def timing(cpu_s: float, limit_s: float = 8.0) -> Timing:
    return Timing(
        name="a load", requests=100, cpu_s=cpu_s, wall_s=2 * cpu_s, simulated_s=60.0, good=1.0,
        replica_hours=1.0, limit_s=limit_s,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cpu_s", "load_average", "word"),
    [((7.9, 4.0), 0.2, "ok"), ((7.9, 4.0), 9.0, "ok"), ((7.9, 8.1), 0.2, "short"),
     ((7.9, 8.1), 9.0, "void")],
)  # fmt: skip
def test_a_slow_run_counts_only_on_a_machine_at_rest(
    cpu_s: tuple[float, float], load_average: float, word: str
) -> None:
    last = verdict([timing(each) for each in cpu_s], load_average)
    assert last.split()[:2] == ["bench-simulator:", word]


def test_a_result_is_never_written_over(tmp_path: Path) -> None:
    now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    path = save(tmp_path, now, [timing(4.0)], "bench-simulator: ok", days=7)
    assert json.loads(path.read_text())["timings"][0]["cpu_s"] == 4.0
    with pytest.raises(FileExistsError):
        save(tmp_path, now, [timing(4.0)], "bench-simulator: ok", days=7)


def test_the_result_says_how_it_was_made(tmp_path: Path) -> None:
    path = save(tmp_path, datetime(2026, 11, 30, tzinfo=UTC), [timing(4.0)], "", days=2)
    found = json.loads(path.read_text())
    assert (found["command"], found["compiled"]) == ("python -m bench.simulator --days 2", False)


def test_a_week_is_played_unless_told_otherwise() -> None:
    assert (parser().parse_args([]).days, parser().parse_args(["--days", "1"]).days) == (7, 1)


@pytest.mark.parametrize("days", ["0", "-1", "half"])
def test_other_than_whole_days_are_refused(days: str) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([f"--days={days}"])


def test_the_load_that_stands_in_has_the_size_of_the_trace() -> None:
    load = list(chat(5.53, 3502.0))
    assert len(load) == pytest.approx(19_366, rel=0.02)
    assert sum(r.prompt_tokens for r in load) / len(load) == pytest.approx(1155, rel=0.1)
    assert sum(r.output_tokens for r in load) / len(load) == pytest.approx(211, rel=0.1)
