"""How the plug-in ends: the exit code, and what is said."""

from __future__ import annotations

import pytest
import typer

from paceline_operator.cli.errors import CliError
from paceline_operator.cli.exit_code import INTERRUPTED, UNANSWERED
from paceline_operator.cli.guard import guarded


def ended_by(error: BaseException, failed: int = UNANSWERED) -> int:
    with pytest.raises(typer.Exit) as found, guarded(failed):
        raise error
    return found.value.exit_code


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_by(CliError("no such file")) == UNANSWERED
    assert capsys.readouterr().err == "error: no such file\n"


def test_what_an_input_holds_orders_nothing_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended_by(CliError("a\nb: \x1b[2J no such field"))
    assert capsys.readouterr().err == "error: a\\nb: \\x1b[2J no such field\n"


@pytest.mark.behaviour(
    "a defect is no answer: it ends with the exit code of an error, and with its traceback",
    report="an exception nobody expected ended a check with 1, as a spec does that misses",
)
@pytest.mark.parametrize("failed", [1, UNANSWERED])
def test_a_defect_keeps_its_traceback(failed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_by(ValueError("a defect"), failed) == failed
    said = capsys.readouterr()
    assert said.err.startswith("Traceback (most recent call last):")
    assert said.err.endswith("ValueError: a defect\n")
    assert said.out == ""


def test_an_interrupt_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_by(KeyboardInterrupt()) == INTERRUPTED
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "error",
    [typer.Exit(7), typer.Abort(), typer.BadParameter("no"), SystemExit(3)],
    ids=lambda error: type(error).__name__,
)
def test_what_ends_a_program_in_an_orderly_way_is_left_to_do_so(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(error)) as found, guarded(UNANSWERED):
        raise error
    assert found.value is error
    assert capsys.readouterr().err == ""
