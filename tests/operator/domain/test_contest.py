"""How often something is done again that someone else undoes again and again."""

from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.contest import Contest, Key, pruned, taker, told

KEY: Key = ("Service", "chat", "argocd")


def played(moments: list[float]) -> tuple[list[float], Contest]:
    """When it was done again, of the moments at which it was found undone."""
    found, done = Contest(), []
    for now_s in moments:
        if found.is_due(now_s):
            done.append(now_s)
        found = found.after(now_s)
    return done, found


@pytest.mark.parametrize(
    ("moments", "done"),
    [
        ([0], [0]),
        ([0, 1], [0, 1]),
        ([0, 1, 2, 30, 60, 61, 62, 121], [0, 1, 61, 121]),
        ([0, 300, 359, 360], [0, 300, 360]),
        # After ten minutes without, it begins anew.
        ([0, 1, 602, 603, 604], [0, 1, 602, 603]),
        ([float(each) for each in range(601)], [0.0, 1.0, *(1.0 + 60 * n for n in range(1, 10))]),
    ],
)
def test_twice_at_once_and_then_once_a_minute(moments: list[float], done: list[float]) -> None:
    assert played(moments)[0] == done


@pytest.mark.parametrize(
    ("moments", "now_s", "is_told"),
    [
        ([0, 1], 2, False),
        ([0, 1, 2], 2, True),
        ([0, 1, 2], 602, True),
        ([0, 1, 2], 603, False),
        ([0, 100, 200], 300, True),
        ([0, 100, 200], 601, False),
    ],
)
def test_when_it_is_told(moments: list[float], now_s: float, is_told: bool) -> None:
    found = {KEY: played(moments)[1]}
    assert told(found, ("Service",), now_s) == (("Service chat by argocd",) if is_told else ())
    assert told(found, ("Pod",), now_s) == ()


def test_what_is_over_is_forgotten() -> None:
    found = {KEY: played([0, 1, 2])[1]}
    assert pruned(found, 602) == found
    assert pruned(found, 603) == {}


def entry(manager: str, at: int, **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "time": f"2026-01-01T00:00:{at:02}Z", **fields}


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([], "someone"),
        ([entry("paceline", 9, operation="Apply")], "someone"),
        ([entry("paceline", 9, operation="Apply", subresource="scale")], "someone"),
        ([entry("kubectl", 1), entry("argocd", 2), entry("paceline", 9)], "argocd"),
        ([entry("kubectl", 1), entry("controller", 9, subresource="status")], "kubectl"),
        ([entry("hpa", 3, subresource="scale"), entry("kubectl", 1)], "hpa"),
        ([{"manager": "timeless"}], "timeless"),
    ],
)
def test_who_wrote_last(entries: list[dict[str, Any]], found: str) -> None:
    assert taker({"metadata": {"managedFields": entries}}) == found
