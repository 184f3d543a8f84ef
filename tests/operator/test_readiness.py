"""What the probes say, and what kinds a cluster knows."""

from __future__ import annotations

import time
from typing import Any

import pytest
from typing_extensions import override

from paceline_operator.clock import SteadyClock
from paceline_operator.kube.client import KubeClient, Object
from paceline_operator.kube.errors import NotFoundError, UnavailableError
from paceline_operator.kube.lease import LeaderLease, LeaseTerms
from paceline_operator.kube.resource import SCALED_OBJECT
from paceline_operator.kube.store import Key
from paceline_operator.readiness import Health, exists
from paceline_operator.reconcile.queue import WorkQueue

NO_CLIENT: Any = None
LEASE = LeaderLease(NO_CLIENT, LeaseTerms(namespace="d", name="leader", identity="one"))


def test_a_process_that_may_not_take_its_lease_is_not_ready() -> None:
    lease = LeaderLease(NO_CLIENT, LeaseTerms(namespace="d", name="leader", identity="one"))
    health = Health(WorkQueue(time.monotonic), lease, SteadyClock(time.monotonic, time.time))
    assert health.ready() == "the API server was not reached yet"
    health.can_reach_api = True
    assert health.ready() == ""
    lease.refusal = "lease d/leader: forbidden"
    assert health.ready() == "lease d/leader: forbidden"


async def test_a_process_whose_workers_take_nothing_is_restarted() -> None:
    now = [0.0]
    queue: WorkQueue[Key] = WorkQueue(lambda: now[0])
    health = Health(queue, LEASE, SteadyClock(lambda: now[0], lambda: now[0]))
    for name in ("a", "b", "c"):
        queue.add(("d", name))
    now[0] = 119.0
    assert health.alive() == ""
    await queue.get()
    now[0] = 230.0
    assert health.alive() == ""
    now[0] = 240.0
    assert health.alive() == "objects are due, and none was taken for 121 s"


@pytest.mark.parametrize(
    ("set_by_s", "said"),
    [
        (59.0, ""),
        (3600.0, "the machine's clock was set by 3600 s"),
        (-86400.0, "the machine's clock was set by -86400 s"),
    ],
)
def test_a_process_whose_clock_is_far_off_is_restarted(set_by_s: float, said: str) -> None:
    """It would open freeze windows an hour late, or take load of an hour ago for fresh."""
    wall = [1e9]
    health = Health(WorkQueue(time.monotonic), LEASE, SteadyClock(lambda: 0.0, lambda: wall[0]))
    assert health.alive() == ""
    wall[0] += set_by_s
    assert health.alive() == said


class Discovery(KubeClient):
    """Knows the kinds of one group."""

    def __init__(self, *kinds: str, failure: Exception | None = None) -> None:
        self._kinds, self._failure = kinds, failure

    @override
    async def get(self, path: str, **query: str) -> Object:
        assert path == "/apis/keda.sh/v1alpha1"
        if self._failure is not None:
            raise self._failure
        return {"resources": [{"name": kind} for kind in self._kinds]}


@pytest.mark.parametrize(
    ("cluster", "found"),
    [
        (Discovery("scaledobjects", "scaledobjects/status"), True),
        (Discovery("triggerauthentications", "scaledobjects/status"), False),
        (Discovery(), False),
        (Discovery(failure=NotFoundError("404")), False),
    ],
)
async def test_a_kind_exists_where_its_group_has_it(cluster: Discovery, found: bool) -> None:
    assert await exists(cluster, SCALED_OBJECT) is found


async def test_a_server_that_does_not_say_has_not_said_no() -> None:
    with pytest.raises(UnavailableError):
        await exists(Discovery(failure=UnavailableError("503")), SCALED_OBJECT)
