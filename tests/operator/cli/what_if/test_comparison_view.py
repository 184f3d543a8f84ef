from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from paceline_operator.cli.what_if.comparison_document import comparison_document
from paceline_operator.cli.what_if.comparison_rows import rows
from paceline_operator.cli.what_if.comparison_view import markdown, notes, render, title
from paceline_operator.simulator.what_if.comparison import Comparison, verdict
from tests.operator.simulator.what_if.build import ITL, TTFT, comparison, figures, variant

OLD = variant("old", figures())
NEW = variant(
    "new",
    figures(attained=(0.90, 0.99), replica_hours=20.0, refused=12),
    figures(attained=(0.92, 0.99), replica_hours=30.0, refused=12),
)
PAIR = comparison(OLD, NEW)


def values(found: Comparison) -> dict[str, tuple[str, ...]]:
    return {row.label: (*row.values, row.change) for row in rows(found)}


def test_rows_show_both_and_the_change() -> None:
    found = values(PAIR)
    label = "first-token (TTFT p95 1.00 s)"
    assert found[label] == ("97.0 % held", "91.0 % (90.0 to 92.0) missed", "-6.0 points")
    assert found["cadence (ITL p95 50 ms)"] == ("99.0 % held", "99.0 % held", "=")
    assert found["replica-hours"] == ("4.00", "25.00 (20.00 to 30.00)", "+21.00")
    assert found["cost"] == ("10.00", "62.50 (50.00 to 75.00)", "+525 %")
    assert found["requests refused"] == ("0", "12", "+12")


def test_a_changed_target_is_shown_and_not_compared() -> None:
    strict = replace(TTFT, target_ms=500)
    found = values(comparison(OLD, variant("new", objectives=(strict, ITL))))
    assert found["first-token (TTFT p95 1.00 s -> TTFT p95 500 ms)"] == (
        "97.0 % held", "97.0 % held", "",
    )  # fmt: skip


def test_objectives_of_one_spec_alone_have_a_dash() -> None:
    found = values(comparison(variant("old", objectives=(TTFT,)), NEW))
    assert found["cadence (ITL p95 50 ms)"] == ("-", "99.0 % held", "")
    found = values(comparison(OLD, variant("new", objectives=(ITL,))))
    assert found["first-token (TTFT p95 1.00 s)"][1] == "-"
    assert next(iter(found)).startswith("cadence")


def test_without_a_price_there_is_no_cost() -> None:
    assert values(comparison(OLD, variant("new", price=None)))["cost"] == ("10.00", "-", "")


def test_a_new_spec_alone_has_no_change() -> None:
    text = markdown(comparison(None, NEW))
    assert "|  | new |\n| --- | ---: |\n" in text
    assert "change" not in text


def test_markdown_is_a_comment_with_verdict_table_and_method() -> None:
    lines = markdown(PAIR).splitlines()
    assert lines[0] == "### What if: `chat`"
    assert lines[2] == f"**{verdict(PAIR)}**"
    table = [line for line in lines if line.startswith("|")]
    assert table[0] == "|  | old | new | change |"
    assert {line.count("|") for line in table} == {5}
    assert any(line.startswith("- As given.") for line in lines)
    assert lines[-1] == "</details>"


def test_names_cannot_break_the_markdown() -> None:
    evil = replace(TTFT, name="a|b*<img>")
    found = comparison(None, variant("new", objectives=(evil, ITL)))
    row = next(line for line in markdown(found).splitlines() if "img" in line and line[0] == "|")
    assert row.startswith(r"| a\|b\*\<img\> (TTFT")


def test_what_is_assumed_of_both_is_said_once() -> None:
    assert notes(PAIR).count("As given.") == 1
    other = replace(NEW, notes=("As given.", "Cold start: 9 s."))
    assert notes(comparison(OLD, other))[1:] == ("As given.", "new: Cold start: 9 s.")


def test_the_table_has_every_row() -> None:
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(render(PAIR))
    text = capture.get()
    assert all(row.label in text for row in rows(PAIR))
    assert "OLD" in text
    assert "CHANGE" in text


def test_json_has_the_spread_and_every_run() -> None:
    document = json.loads(json.dumps(comparison_document(PAIR)))
    assert document["verdict"] == verdict(PAIR)
    assert document["old"]["costPerReplicaHour"] == 2.5
    new = document["new"]
    assert new["replicaHours"] == {"mean": 25.0, "least": 20.0, "most": 30.0}
    assert new["objectives"][0]["held"] is False
    assert new["objectives"][0]["attained"]["most"] == 0.92
    assert [run["refused"] for run in new["runs"]] == [12, 12]


@pytest.mark.parametrize(
    ("requests", "said"), [(1.0, "1 request"), (1.4, "1 request"), (2000.0, "2,000 requests")]
)
def test_the_title_counts_requests(requests: float, said: str) -> None:
    assert f", {said} (mean " in title(replace(PAIR, load=replace(PAIR.load, requests=requests)))


def test_no_samples_are_a_state_of_their_own() -> None:
    found = comparison(OLD, variant("new", figures(attained=(None, 0.99), goodput=None)))
    shown = values(found)
    assert shown["first-token (TTFT p95 1.00 s)"] == ("97.0 % held", "no samples", "")
    assert shown["requests within all objectives"] == ("96.0 %", "-", "")
    assert "| no samples |" in markdown(found)
    new = json.loads(json.dumps(comparison_document(found)))["new"]
    assert (new["objectives"][0]["attained"], new["objectives"][0]["held"]) == (None, None)
    assert new["objectives"][1]["held"] is True
    assert (new["goodput"], new["runs"][0]["attained"]) == (None, [None, 0.99])


def test_without_enough_requests_there_are_no_worst_minutes() -> None:
    found = comparison(OLD, variant("new", figures(worst_5min=None, worst_5min_at_s=None)))
    assert values(found)["worst 5 minutes of that"] == ("90.0 %", "-", "")
    assert comparison_document(found)["new"]["worst5min"] is None


def test_what_an_input_holds_stays_on_its_line() -> None:
    forged = replace(NEW, notes=("engine.args a\n- Cold start: 1 s\x1b[31m are left out.",))
    found = comparison(OLD, forged)
    assert all("\n" not in note and "\x1b" not in note for note in notes(found))
    assert r"a\n- Cold start: 1 s\x1b[31m are" in notes(found)[-1]
    assert "\x1b" not in markdown(found)
