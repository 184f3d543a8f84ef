"""A cluster's API without its nodes, and an administrator on it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from e2e.cluster import binaries, settings
from e2e.install import Helm
from e2e.kubectl import Kubectl
from tests.support.apiserver import running


@pytest.fixture(scope="session")
def admin() -> Iterator[Kubectl]:
    """kubectl as administrator."""
    program = binaries.link_directory(settings.from_environment().cache) / "kubectl"
    with running() as server:
        yield Kubectl(program, server.kubeconfig)


@pytest.fixture(scope="session")
def helm(admin: Kubectl) -> Helm:
    """Helm on the same server."""
    return Helm(binaries.require(settings.from_environment().cache, "helm"), admin)


@pytest.fixture(autouse=True)
def _a_closed_terminal_counts() -> Iterator[None]:
    """Also where `nohup` has it ignored: tests are about what it does elsewhere."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))
    yield
    signal.signal(signal.SIGHUP, before)
