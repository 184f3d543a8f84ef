"""What the observer says when it cannot see."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from e2e.demo import observer
from e2e.demo.observer import Observer, ObserverError

NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u, user: {}}]
"""


def test_one_that_ended_by_itself_says_why_at_once(tmp_path: Path) -> None:
    watching = Observer(tmp_path / "no-such-kubeconfig", "n", "fleet")
    watching._thread.join(10)
    with pytest.raises(ObserverError, match="not seen any more: ConfigException: Invalid kube"):
        watching.check_running()
    with pytest.raises(ObserverError, match="not seen any more"):
        watching.check()
    watching.close()


def test_one_that_is_blind_says_for_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "BLIND_S", 0.3)
    monkeypatch.setattr(observer, "INTERVAL_S", 0.1)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    watching = Observer(kubeconfig, "n", "fleet")
    try:
        time.sleep(0.6)
        watching.check_running()
        with pytest.raises(ObserverError, match=r"not seen for \d+ s: ClientConnector"):
            watching.check()
    finally:
        watching.close()
