"""Waiting for what should become true."""

import pytest

from e2e.kubectl import KubectlError
from e2e.smoke import site
from e2e.smoke.site import SmokeError, until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "POLL_S", 0.0)


def test_what_holds_after_a_while_is_waited_for() -> None:
    answers = iter([False, False, True])
    assert until("it", lambda: next(answers), 20.0) >= 0.0
    assert list(answers) == []


def test_a_server_that_is_away_for_a_while_is_no_failure() -> None:
    failures = [KubectlError("refused")]

    def holds() -> bool:
        if failures:
            raise failures.pop()
        return True

    until("it", holds, 20.0)


def test_what_does_not_come_is_named_with_the_servers_last_word() -> None:
    def refused() -> bool:
        raise KubectlError("connection refused")

    with pytest.raises(SmokeError, match=r"^node Ready: not within 0 s \(connection refused\)$"):
        until("node Ready", refused, 0.01)
    with pytest.raises(SmokeError, match=r"^node Ready: not within 0 s$"):
        until("node Ready", lambda: False, 0.01)
