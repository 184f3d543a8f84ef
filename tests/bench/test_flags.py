"""The benchmark of flags: its cases are real command lines, its table says what was measured."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.clients import Outcome
from bench.flag_cases import CASES, REAL, SIMULATED, Case, share
from bench.flags import PAGE, RESULTS, save, server
from bench.flags_page import BEGIN, END, Measured, between, inserted, section, table
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import parse

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MEASURED = Measured(
    name="block",
    flag="--block-size",
    before="--block-size=16",
    after="--block-size=32",
    load="8 clients",
    device="cpu",
    figures={"all tokens/s": ([150.2, 149.0, 160.0], [1401.0, 1405.5, 1300.0])},
    others=0.02,
)


def content(*cases: Measured) -> dict[str, Any]:
    facts = {"usable cores": "2", "processor": "P"}
    listed = [{name: getattr(case, name) for name in Measured.__slots__} for case in cases]
    return {"time": NOW.isoformat(), "rounds": 3, "facts": facts, "cases": listed}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_sides_are_command_lines_that_differ_in_one_flag(case: Case) -> None:
    fixed = ("--model=m", *REAL) if case.real else SIMULATED
    before, after = (
        parse(["serve", *fixed, *case.common, *side]) for side in (case.before, case.after)
    )
    field = case.flag.removeprefix("--").replace("-", "_")
    assert case.flag in set(Flag)
    assert getattr(before, field) != getattr(after, field)
    assert all(a.partition("=")[0] == case.flag for a in (*case.before, *case.after))


def test_what_one_side_gives_wins() -> None:
    case = next(c for c in CASES if c.name == "threads")
    command = server(case, case.after).command(Path("m"), [1, 2, 3], 8)
    assert parse(command[1:]).threads == 1


def test_names_are_unique_and_each_case_tells_something() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        assert case.figures
        assert len({group.name for group in case.groups}) == len(case.groups)


def test_the_table_has_medians_and_spread() -> None:
    row = table([MEASURED]).splitlines()[-1]
    assert row == (
        "| `--block-size` | `16`, `32` | real model: 8 clients | "
        "all tokens/s: 150 (149 to 160) → 1,401 (1,300 to 1,406) |"
    )


def test_a_share_counts_only_the_time_in_which_both_had_work() -> None:
    def outcome(*emitted_s: float) -> Outcome:
        return Outcome(
            wall_s=9, output_tokens=9, ttft_ms=(), gap_ms=(), refused=0, emitted_s=emitted_s
        )

    seen = {"a": outcome(1, 2, 3, 4), "b": outcome(3, 5, 7, 8, 9)}
    assert share("a", "b").of(seen) == 4
    assert share("b", "a").of(seen) == 1 / 4


def test_a_disturbed_case_is_named() -> None:
    noisy = Measured(**{**content(MEASURED)["cases"][0], "name": "noisy", "others": 0.3})
    assert "Disturbed" not in section(content(MEASURED), "f.json")
    assert "Disturbed by other processes: noisy." in section(content(MEASURED, noisy), "f.json")


def test_only_what_stands_between_the_marks_changes() -> None:
    page = f"a\n{BEGIN}\nold\n{END}\nb\n"
    once = inserted(page, "new")
    assert once == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    assert inserted(once, "new") == once
    assert between(once) == "new"


@pytest.mark.parametrize("page", ["", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="once each"):
        inserted(page, "x")


def test_a_rerun_never_overwrites_a_result(tmp_path: Path) -> None:
    data = save(tmp_path, NOW, content(MEASURED))
    assert json.loads(data.read_text())["cases"][0]["name"] == "block"
    assert "| `--block-size` |" in data.with_suffix(".md").read_text()
    with pytest.raises(FileExistsError):
        save(tmp_path, NOW, content(MEASURED))


def test_the_page_shows_the_last_result() -> None:
    """Empty between the marks only while nothing was ever measured."""
    shown = between(PAGE.read_text(encoding="utf-8"))
    results = sorted(RESULTS.glob("flags-*.json"))
    if not results:
        assert shown == ""
        return
    last = json.loads(results[-1].read_text(encoding="utf-8"))
    assert shown == section(last, f"../bench/results/{results[-1].name}")
