"""What the demo reads out of the objects the API server returns."""

import pytest

from e2e.demo.timeline import decisions_of, is_ready, parse_time, pod_times, sample_of

CREATED = "2026-01-01T00:00:00Z"


def pod(*, ready: bool, restarts: int = 0, leaving: bool = False) -> dict[str, object]:
    metadata = {"name": "p", "uid": "u", "creationTimestamp": CREATED}
    if leaving:
        metadata["deletionTimestamp"] = CREATED
    return {
        "metadata": metadata,
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "lastTransitionTime": "2026-01-01T00:00:12Z",
                }
            ],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


@pytest.mark.parametrize(
    ("ready", "leaving", "serves"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_a_leaving_pod_does_not_serve(ready: bool, leaving: bool, serves: bool) -> None:
    assert is_ready(pod(ready=ready, leaving=leaving)) is serves


def test_cold_start_runs_from_creation_to_readiness() -> None:
    assert pod_times(pod(ready=True)).cold_start_s == 12.0
    assert pod_times(pod(ready=False)).cold_start_s is None


def test_a_sample_counts_pods_and_restarts() -> None:
    status = {"budget": {"desired": 512, "effective": 256, "runningSeqs": 8}}
    pods = [pod(ready=True, restarts=2), pod(ready=False, restarts=1)]
    sample = sample_of({"status": status}, pods, at_s=1.0, cpu_percent=3.0)
    assert (sample.replicas, sample.ready, sample.restarts) == (2, 1, 3)
    assert (sample.budget, sample.running_seqs) == (256, 8)


def test_before_the_first_status_nothing_is_known() -> None:
    sample = sample_of({}, [], at_s=1.0, cpu_percent=0.0)
    assert sample.budget is None
    assert sample.replicas == 0


def test_decisions_come_oldest_first() -> None:
    listed = [
        {
            "time": f"2026-01-01T00:00:{second:02}Z",
            "knob": "budget",
            "action": "Lower",
            "reason": "X",
        }
        for second in (30, 10)
    ]
    found = decisions_of({"status": {"decisions": listed}})
    assert [d.at_s for d in found] == [parse_time(listed[1]["time"]), parse_time(listed[0]["time"])]
