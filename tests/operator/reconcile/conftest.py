"""One operator process for all tests of this folder; it watches the namespace `default`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fleet_api import FleetApi
from tests.support.operator_process import OperatorProcess, operator_process


@pytest.fixture(scope="package")
def operator(
    fleets: FleetApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    directory = tmp_path_factory.mktemp("operator")
    recording = {"directory": str(directory / "records"), "maxMegabytes": 16}
    settings = {
        "watchNamespaces": ["default"],
        "leaseName": "reconcile",
        "recording": recording,
    }
    with operator_process(fleets.server.kubeconfig, directory, "reconcile", settings) as process:
        process.wait_for("leads by lease")
        yield process
