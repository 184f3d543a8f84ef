from __future__ import annotations

from typing import Any

from paceline_operator.domain.pod_event import PodEvent, newest
from tests.support.fleet import NOW_S, moment


def event(reason: str, kind: str, at_s: float, note: str = "", **more: Any) -> dict[str, Any]:
    """As the API server shows what a kubelet tells."""
    return {
        "metadata": {"name": reason, "creationTimestamp": moment(NOW_S - 100)},
        "reason": reason, "type": kind, "note": note, "eventTime": None,
        "deprecatedLastTimestamp": moment(at_s), **more,
    }  # fmt: skip


MOUNT = 'MountVolume.SetUp failed for volume "model" : hostPath type check failed: /m is not a file'


def test_a_mount_that_fails_again_and_again_is_the_newest() -> None:
    items = [
        event("Scheduled", "Normal", NOW_S - 60),
        event("FailedMount", "Warning", NOW_S - 3, MOUNT),
    ]
    assert newest(items) == PodEvent("FailedMount", MOUNT, warning=True)


def test_what_failed_before_and_works_now_is_not_told() -> None:
    items = [
        event("FailedMount", "Warning", NOW_S - 60, "secret not found"),
        event("Pulling", "Normal", NOW_S - 50, "Pulling image"),
    ]
    assert newest(items) == PodEvent("Pulling", "Pulling image", warning=False)


def test_of_one_second_the_warning_counts() -> None:
    items = [
        event("FailedMount", "Warning", NOW_S, "a"),
        event("Scheduled", "Normal", NOW_S, "b"),
    ]
    found = newest(items)
    assert found is not None
    assert found.reason == "FailedMount"


def test_a_series_lasts_until_it_was_last_seen() -> None:
    seen = {"count": 4, "lastObservedTime": moment(NOW_S)}
    items = [
        event("FailedMount", "Warning", NOW_S - 60, "again", series=seen),
        event("Scheduled", "Normal", NOW_S - 50),
    ]
    found = newest(items)
    assert found is not None
    assert found.reason == "FailedMount"


def test_long_and_broken_text_is_one_short_line() -> None:
    found = newest([event("Failed", "Warning", NOW_S, "a\n  b " + 900 * "c")])
    assert found is not None
    assert found.text.startswith("a b ccc")
    assert len(found.text) == 400


def test_no_event_says_nothing() -> None:
    assert newest([]) is None
