"""A load whose observer fails is ended, and that is what is said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e.demo.observer import ObserverError
from e2e.demo.timeline import PodTimes
from e2e.kubectl import KubectlError
from e2e.smoke.__main__ import Report
from e2e.trial import part
from e2e.trial.load import SHORT


class Blind:
    """An observer that sees nothing from its third check on."""

    def __init__(self, *_: object) -> None:
        self.checks = 0
        self.is_closed = False
        self.last = SimpleNamespace(ready=2, replicas=2, budget=128, cpu_percent=30.0)

    def check(self) -> None:
        self.checks += 1
        if self.checks > 2:
            raise ObserverError("the fleet was not seen for 31 s: TimeoutError")

    def close(self) -> None:
        self.is_closed = True


class Job:
    """A load Job on a cluster that does not answer any more."""

    def __init__(self) -> None:
        self.deletions = 0

    def start(self) -> None:
        pass

    def wait_running(self) -> None:
        pass

    def delete(self) -> None:
        self.deletions += 1
        raise KubectlError("kubectl delete: connection refused")


def test_an_observer_that_fails_ends_the_load_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watching, job = Blind(), Job()
    monkeypatch.setattr(part, "TOLD_EVERY_S", 0.01)
    monkeypatch.setattr(part, "Observer", lambda *_: watching)
    monkeypatch.setattr(part, "_apply", lambda _site: "applied")
    monkeypatch.setattr(part, "_job", lambda _site, _stages: job)
    site: Any = SimpleNamespace(
        kubectl=SimpleNamespace(kubeconfig=None, namespace="n"),
        settings=SimpleNamespace(programs=tmp_path),
    )
    with pytest.raises(ObserverError, match="not seen for 31 s"):
        part.serve(site, SHORT.direct, Report())
    assert watching.checks == 3
    assert watching.is_closed
    assert job.deletions == 1


@pytest.mark.parametrize(
    ("pods", "idle_s"),
    [
        ([(0.0, 70.0), (0.0, 80.0)], 20.0),
        ([(0.0, 80.0), (105.0, 120.0)], 20.0),
        ([(0.0, None)], 0.0),
        ([], 0.0),
    ],
    ids=["the last of the first", "one made under load", "one that never was", "none"],
)
def test_a_fleet_is_idle_from_its_last_ready_pod_to_the_load(
    pods: list[tuple[float, float | None]], idle_s: float
) -> None:
    seen = {str(place): PodTimes(created_s=c, ready_s=r) for place, (c, r) in enumerate(pods)}
    served: Any = SimpleNamespace(
        judged_s=(100.0, 300.0), observer=SimpleNamespace(pods=seen), log=None, stages=None
    )
    assert part._idle_s(served) == idle_s
