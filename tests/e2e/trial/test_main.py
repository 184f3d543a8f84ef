"""How the trial's command ends when it could not be carried through."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.demo.observer import ObserverError
from e2e.install import InstallError
from e2e.smoke.site import SmokeError
from e2e.trial import __main__ as trial


@pytest.mark.parametrize(
    "error",
    [
        ObserverError("the fleet was not seen for 31 s: TimeoutError"),
        InstallError("helm upgrade: timed out"),
        SmokeError("6 ready engines: not within 120 s"),
        KeyboardInterrupt(),
    ],
)
def test_what_fails_is_said_in_one_line_after_all_is_removed(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed: list[str] = []

    @contextmanager
    def stand(namespace: str, **_: object) -> Iterator[None]:
        try:
            yield
        finally:
            removed.append(namespace)

    def run(*_: object) -> None:
        raise error

    for name in ("PACELINE_CLUSTER", "PACELINE_KUBE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(trial, "stand", stand)
    monkeypatch.setattr(trial.course, "run", run)
    monkeypatch.setattr(sys, "argv", ["e2e.trial"])
    is_told_to_end = isinstance(error, KeyboardInterrupt)
    assert trial.main() == (130 if is_told_to_end else 1)
    said = "interrupted; what it had started is removed" if is_told_to_end else f"short {error}"
    assert capsys.readouterr().out == f"e2e: {said}\n"
    assert removed == [trial.NAMESPACE]
