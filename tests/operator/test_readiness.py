"""What the probes say, and what kinds a cluster knows."""

from __future__ import annotations

import time
from typing import Any

import pytest
from typing_extensions import override

from paceline_operator.kube.client import KubeClient, Object
from paceline_operator.kube.errors import NotFoundError, UnavailableError
from paceline_operator.kube.lease import LeaderLease, LeaseTerms
from paceline_operator.kube.resource import SCALED_OBJECT
from paceline_operator.readiness import Health, exists
from paceline_operator.reconcile.queue import WorkQueue

NO_CLIENT: Any = None


def test_a_process_that_may_not_take_its_lease_is_not_ready() -> None:
    lease = LeaderLease(NO_CLIENT, LeaseTerms(namespace="d", name="leader", identity="one"))
    health = Health(WorkQueue(time.monotonic), lease)
    assert health.ready() == "the API server was not reached yet"
    health.can_reach_api = True
    assert health.ready() == ""
    lease.refusal = "lease d/leader: forbidden"
    assert health.ready() == "lease d/leader: forbidden"


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
