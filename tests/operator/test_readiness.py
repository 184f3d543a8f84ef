"""What the probes say, and what kinds a cluster knows."""

from __future__ import annotations

import time
from typing import Any

from paceline_operator.kube.lease import LeaderLease, LeaseTerms
from paceline_operator.readiness import Health
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
