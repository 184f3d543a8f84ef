"""One API server for all tests of the operator that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fleet_api import FleetApi, fleet_api


@pytest.fixture(scope="session")
def fleets() -> Iterator[FleetApi]:
    with fleet_api() as api:
        yield api
