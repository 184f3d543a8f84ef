"""The API server that other tests rely on: real validation, users without rights, clean stop."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import binaries
from e2e.cluster.errors import BinaryMissingError
from tests.support.apiserver import ApiServer, free_ports, running

pytestmark = pytest.mark.apiserver


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running() as started:
        yield started


def test_it_validates_and_stores_objects(server: ApiServer) -> None:
    server.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    assert server.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"

    refused = server.try_kubectl("create", "configmap", "Not_A_Name")

    assert refused.returncode != 0
    assert "RFC 1123" in refused.stderr


def test_another_user_has_no_rights_until_bound(server: ApiServer) -> None:
    account = server.kubeconfig_for("system:serviceaccount:default:reader")
    ask = ("auth", "can-i", "list", "pods", "--kubeconfig", str(account))
    assert server.try_kubectl(*ask).stdout.strip() == "no"

    server.kubectl("create", "role", "pods", "--verb=list", "--resource=pods")
    server.kubectl("create", "rolebinding", "r", "--role=pods", "--serviceaccount=default:reader")

    # The authoriser reads roles through a watch, a moment behind the write.
    deadline = time.monotonic() + 10
    while server.try_kubectl(*ask).stdout.strip() != "yes":
        assert time.monotonic() < deadline, "the role binding had no effect"


def test_it_leaves_no_directory_behind() -> None:
    with running() as started:
        place = started.directory
        assert place.is_dir()
    assert not place.exists()


def test_a_missing_binary_names_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    with pytest.raises(BinaryMissingError, match="make cluster-build"), running():
        pass


def test_free_ports_differ() -> None:
    assert len(set(free_ports(8))) == 8


def test_kubebox_is_linked_under_every_program_it_holds() -> None:
    source = (binaries.MODULES / "kubernetes" / "main.go").read_text()
    assert all(f'"{name}":' in source for name in binaries.KUBEBOX_LINKS)
