"""The smoke test's command: refusals, interruptions and the verdict, each in one line."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster.settings import Settings
from e2e.install import InstallError
from e2e.smoke import __main__ as smoke
from e2e.smoke.result import Result
from e2e.smoke.site import SmokeError


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Result]], None]:
    """Puts something in place of the run on a cluster."""

    @contextmanager
    def stand(_namespace: str, *, keep_cluster: bool) -> Iterator[None]:
        assert not keep_cluster
        yield

    def stands(run: Callable[[], Result]) -> None:
        for name in ("PACELINE_CLUSTER", "PACELINE_KUBE_CONTEXT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(smoke, "stand", stand)
        monkeypatch.setattr(smoke, "_run", lambda _place, _report: run())

    return stands


@pytest.mark.parametrize(
    ("result", "code", "shown"),
    [
        (Result(ok=True, line="smoke: ok requests=1", reasons=()), 0, ["smoke: ok requests=1"]),
        (Result(ok=False, line="smoke: short", reasons=("why",)), 1, ["  why", "smoke: short"]),
    ],
)
def test_the_last_line_is_the_verdict(
    standing: Callable[[Callable[[], Result]], None],
    capsys: pytest.CaptureFixture[str],
    result: Result,
    code: int,
    shown: list[str],
) -> None:
    standing(lambda: result)
    assert smoke.main() == code
    lines = capsys.readouterr().out.splitlines()
    assert lines == [*shown[:-1], f"{shown[-1]} seconds=0"]


@pytest.mark.parametrize("error", [SmokeError("it broke"), InstallError("it broke")])
def test_what_fails_is_one_line(
    standing: Callable[[Callable[[], Result]], None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    def fail() -> Result:
        raise error

    standing(fail)
    assert smoke.main() == 1
    assert capsys.readouterr().out.splitlines() == ["smoke: short it broke"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_is_one_line(
    standing: Callable[[Callable[[], Result]], None],
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    def interrupted() -> Result:
        os.kill(os.getpid(), number)
        raise AssertionError

    before = signal.getsignal(number)
    standing(interrupted)
    assert smoke.main() == 130
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("smoke: interrupted")
    assert signal.getsignal(number) is before


def test_somebody_elses_cluster_is_refused_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PACELINE_CLUSTER", "existing")
    monkeypatch.setenv("PACELINE_KUBE_CONTEXT", "production")
    monkeypatch.setenv("KUBECONFIG", "/absent")
    assert smoke.main() == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("smoke: short it kills the API server, which context production")


def test_the_test_cluster_is_its_own() -> None:
    smoke.require_own_cluster(Settings(state=Path("/s"), cache=Path("/c")))
