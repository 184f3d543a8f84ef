from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline_operator.cli.errors import CliError
from paceline_operator.cli.what_if import load as what_if_load
from paceline_operator.metrics.load_history import History
from paceline_operator.simulator.loads.reconstruction import Reconstruction
from paceline_operator.simulator.loads.trace import TraceError

TEXT = "arrival_s,prompt_tokens,output_tokens\n0,100,10\n5,100,10\n"


def test_a_tier_that_is_left_out_is_named_with_what_it_received() -> None:
    found = History(
        load=Reconstruction(), step_s=30.0, window_s=60.0, scrape_s=15.0, hit_share=0.0,
        kv_tokens=None, left_out={"batch": 39.8},
    )  # fmt: skip
    assert what_if_load._left_out_notes(found) == (
        "Left out: the tier 'batch', of whose 40 requests none ended in that time, so that no "
        "lengths are known.",
    )


def test_a_trace_whose_times_are_no_seconds_is_refused(tmp_path: Path) -> None:
    """One that names milliseconds would be played for hours."""
    trace = tmp_path / "load.csv"
    lines = "".join(f"{1000 * second},100,10\n" for second in range(0, 4000, 100))
    trace.write_text(f"arrival_s,prompt_tokens,output_tokens\n{lines}")
    with pytest.raises(CliError, match=r"46\.3 d, and 31\.0 d are played at most; .*seconds"):
        what_if_load.from_trace(trace, 1.0)


@pytest.mark.parametrize(
    ("last", "length"), [("0.000000001", "2e-09"), ("0.0004", "0.0008"), ("0.49", "0.98")]
)
def test_a_trace_of_next_to_no_length_is_refused(tmp_path: Path, last: str, length: str) -> None:
    trace = tmp_path / "load.csv"
    trace.write_text(f"arrival_s,prompt_tokens,output_tokens\n0,100,10\n{last},100,10\n")
    with pytest.raises(CliError) as refused:
        what_if_load.from_trace(trace, 1.0)
    assert str(refused.value) == (
        f"{trace}: its requests arrive within {length} s, and 1 s is the least that can be "
        "played; give arrival_s in seconds, or more of it"
    )


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "load.csv"
    file.write_text(TEXT)
    return file


@pytest.mark.parametrize("scale", [1.0, 2.0, 0.5])
def test_a_trace_is_played_as_often_as_it_is_asked_for(trace: Path, scale: float) -> None:
    load = what_if_load.from_trace(trace, scale)
    assert load.totals.requests == 2
    assert list(load.requests(1)) == list(load.requests(1))


def test_a_pipe_is_refused_since_it_can_be_read_once_only() -> None:
    reading, writing = os.pipe()
    os.write(writing, TEXT.encode())
    os.close(writing)
    pipe = Path(f"/dev/fd/{reading}")
    with pytest.raises(CliError) as refused:
        what_if_load.from_trace(pipe, 1.0)
    os.close(reading)
    assert str(refused.value) == f"{pipe}: it is read several times; name a regular file"


def emptied(file: Path) -> None:
    file.write_text("")


def lengthened(file: Path) -> None:
    file.write_text(f"{TEXT}9,100,10\n")


@pytest.mark.parametrize("change", [emptied, lengthened, Path.unlink])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_trace_that_changes_meanwhile_is_said(
    trace: Path, change: Callable[[Path], None], scale: float
) -> None:
    load = what_if_load.from_trace(trace, scale)
    change(trace)
    with pytest.raises(TraceError, match=f"^{trace}:"):
        list(load.requests(1))


def test_a_trace_that_changes_while_it_is_looked_through_is_said(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = what_if_load.trace_tape

    def looked_through(path: Path) -> object:
        found = whole(path)
        emptied(path)
        return found

    monkeypatch.setattr(what_if_load, "trace_tape", looked_through)
    with pytest.raises(CliError, match="the header is ''"):
        what_if_load.from_trace(trace, 1.0)
