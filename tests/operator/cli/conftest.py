"""One API server with an object whose status these tests write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operator.cli.sample import SPEC, STATUS
from tests.support.fleet_api import COLLECTION, FleetApi, fleet_api, inference_service
from tests.support.rest import MERGE


@pytest.fixture(scope="session")
def fleets() -> Iterator[FleetApi]:
    with fleet_api() as api:
        for name in ("chat", "fresh"):
            assert api.create(inference_service(name, SPEC)).status == 201
        written = api.rest.call("PATCH", f"{COLLECTION}/chat/status", {"status": STATUS}, MERGE)
        assert written.status == 200, written.message
        yield api
