"""An API server on which the committed definition is installed, and its objects' paths."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from paceline_operator.api import v1alpha1
from paceline_operator.api.crd import FILE_NAME
from tests.support.apiserver import ApiServer, running
from tests.support.rest import Reply, Rest
from tests.support.tree import ROOT

SERVED_WITHIN_S = 90.0
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COLLECTION = f"/apis/{v1alpha1.API_VERSION}/namespaces/default/{v1alpha1.PLURAL}"
STRICT = "fieldValidation=Strict"


@dataclass(frozen=True, slots=True)
class FleetApi:
    """The server and a client that knows where `InferenceService` objects live."""

    server: ApiServer
    rest: Rest

    def validate(self, manifest: dict[str, Any]) -> Reply:
        """What the server would store, without storing it."""
        return self.rest.call("POST", f"{COLLECTION}?dryRun=All&{STRICT}", manifest)

    def create(self, manifest: dict[str, Any]) -> Reply:
        """Store an object."""
        return self.rest.call("POST", f"{COLLECTION}?{STRICT}", manifest)

    def delete(self, name: str) -> Reply:
        """Remove an object."""
        return self.rest.call("DELETE", f"{COLLECTION}/{name}")


@contextmanager
def fleet_api() -> Iterator[FleetApi]:
    """Start a server with the definition of `crds/` served."""
    with running() as server:
        rest = Rest.to(server)
        definition = yaml.safe_load((ROOT / "crds" / FILE_NAME).read_text())
        made = rest.call("POST", f"{DEFINITIONS}?{STRICT}", definition)
        assert made.status == 201, made.message
        limit = time.monotonic() + SERVED_WITHIN_S
        while rest.call("GET", COLLECTION).status != 200:
            assert time.monotonic() < limit, "the definition is not served"
            time.sleep(0.05)
        yield FleetApi(server, rest)


def inference_service(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Manifest of an object."""
    return {
        "apiVersion": v1alpha1.API_VERSION,
        "kind": v1alpha1.KIND,
        "metadata": {"name": name},
        "spec": spec,
    }
