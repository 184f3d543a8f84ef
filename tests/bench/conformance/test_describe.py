from __future__ import annotations

import pytest

from bench.conformance import describe
from bench.conformance.load_case import LoadCase, Service
from paceline_operator.simulator.loads.lengths import ResampledLengths
from paceline_operator.simulator.loads.rates import Constant
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage
from paceline_operator.simulator.loads.trace import TraceError

LOAD = SingleTurns(
    rates=Constant(rps=3.0, duration_s=300.0), stages=(Stage(0.0, ResampledLengths([(1000, 50)])),)
)
CASE = LoadCase(
    name="small",
    play=LOAD.requests,
    duration_s=300.0,
    service=Service(profile="llama-3-8b-a100", ttft_ms=1000, itl_ms=50),
)


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["describe"])
    monkeypatch.delenv("TRACES", raising=False)
    code = describe.main()
    return code, capsys.readouterr().out


def test_a_row_for_each_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(describe, "loads", lambda traces: (CASE, CASE))
    code, out = told(monkeypatch, capsys)
    header, first, second, last = out.splitlines()
    assert code == 0
    assert header.count("|") == first.count("|")
    assert first == second
    assert "| 1000/1000 | 50/50 | 0% |" in first
    assert last == "loads: ok count=2 traces=none"


def test_a_bad_trace_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(traces: object) -> None:
        raise TraceError("t.csv:1: no; yes")

    monkeypatch.setattr(describe, "loads", broken)
    monkeypatch.setattr("sys.argv", ["describe", "--traces", "x"])
    assert describe.main() == 2
    assert capsys.readouterr().err == "loads: stopped t.csv:1: no; yes\n"
