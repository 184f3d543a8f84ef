"""What proves the compiled simulator right can tell two runs apart."""

from __future__ import annotations

import json

import pytest

from bench.conformance import fingerprint


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "STRETCHES", ("8k-context:1740-1860",))


def test_the_same_code_gives_the_same_figures() -> None:
    assert fingerprint.fingerprint() == fingerprint.fingerprint()


def test_other_engines_give_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = json.loads(fingerprint.fingerprint())
    assert before["requests"] > 500
    fewer = fingerprint.TUNING.__class__(budget=512, peak_replicas=3, first_replicas=1)
    monkeypatch.setattr(fingerprint, "TUNING", fewer)
    assert json.loads(fingerprint.fingerprint()) != before
