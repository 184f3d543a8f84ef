"""What the operator does while a right of the chart is taken away, on a real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.charts import test_operator_in_force
from tests.charts.test_operator_in_force import operator, until
from tests.support.chart import make_namespace, template
from tests.support.fleet_api import FleetApi, inference_service
from tests.support.rest import MERGE, Rest

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(360)]

NAMESPACE, FLEETS = "bare", "bare-fleets"
PATIENCE_S = 120.0
"""A Secret that is known is looked at every 20 s."""
VALUES = {"watchNamespaces": [FLEETS]}
SERVICE = f"/apis/paceline.dev/v1alpha1/namespaces/{FLEETS}/inferenceservices"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def with_rules(rest: Rest, role: dict[str, Any], *, secrets: bool) -> None:
    """Have the operator may, or not may, touch Secrets."""
    rules = [each for each in role["rules"] if secrets or each["resources"] != ["secrets"]]
    path = f"{ROLES}/{role['metadata']['name']}"
    assert rest.call("PATCH", path, {"rules": rules}, MERGE).status == 200


def stalled(rest: Rest) -> tuple[str, str]:
    """Status and reason of the service's condition, for which the operator is made to look."""
    mark = {"metadata": {"annotations": {"example.com/looked-at": str(time.monotonic())}}}
    assert rest.call("PATCH", f"{SERVICE}/one", mark, MERGE).status == 200
    time.sleep(0.5)
    found = rest.call("GET", f"{SERVICE}/one").body.get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"]) for c in found if c["type"] == "Stalled"), ("", ""))


@pytest.mark.behaviour(
    "without the right to read a fleet's Secret the operator says so in the status, and goes on "
    "with the token it knows",
    report="a right to read Secrets that was taken away ended every pass without a word",
)
def test_a_right_to_read_secrets_that_is_missing(
    fleets: FleetApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_operator_in_force, "WITHIN_S", PATIENCE_S)
    rest = fleets.rest
    make_namespace(rest, FLEETS)
    roles = template(VALUES, "--namespace", NAMESPACE).of_kind("ClusterRole")
    (role,) = (each for each in roles if any(r["resources"] == ["secrets"] for r in each["rules"]))
    deployment = f"/apis/apps/v1/namespaces/{FLEETS}/deployments/one"
    secret = f"/api/v1/namespaces/{FLEETS}/secrets/one-admin"
    with operator(fleets, NAMESPACE, VALUES) as running:
        with_rules(rest, role, secrets=False)
        spec = {"engine": {"device": {"type": "Simulated"}}, "scaling": {"mode": "Off"}}
        assert rest.call("POST", SERVICE, inference_service("one", spec)).status == 201
        until(running, "told at first", lambda: stalled(rest) == ("True", "MissingRight"))
        assert rest.call("GET", deployment).status == 404
        with_rules(rest, role, secrets=True)
        until(running, "going on", lambda: stalled(rest)[0] == "False")
        token = rest.call("GET", secret).body["data"]

        with_rules(rest, role, secrets=False)
        until(running, "told again", lambda: stalled(rest) == ("True", "MissingRight"))
        more = {"spec": {"replicas": 2}}
        assert rest.call("PATCH", f"{SERVICE}/one", more, MERGE).status == 200
        until(running, "scaled", lambda: rest.call("GET", deployment).body["spec"]["replicas"] == 2)
        with_rules(rest, role, secrets=True)
        until(running, "going on", lambda: stalled(rest)[0] == "False")
        assert rest.call("GET", secret).body["data"] == token
    assert rest.call("DELETE", f"{SERVICE}/one").status == 200
