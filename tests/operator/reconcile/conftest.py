"""One operator process for each file of this folder; it watches the namespace `default`.

For all of them would be until the run ends: tests of other folders write what it watches.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fleet_api import FleetApi
from tests.support.operator_process import OperatorProcess, operator_process


@pytest.fixture(scope="module")
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
