"""Configuration files: nothing at a default place, and the settings that were hard to find."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import binaries, components, configs
from e2e.cluster.images import PAUSE_IMAGE
from e2e.cluster.layout import Layout
from e2e.cluster.settings import BRIDGE, DNS_SERVICE_IP, NODE_IP, PORTS, Settings

STATE = Path("/var/lib/elsewhere")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings with a cache in which every program is a file."""
    for module, programs in binaries.PROGRAMS.items():
        directory = binaries.module_directory(tmp_path, module)
        directory.mkdir(parents=True)
        for program in programs:
            (directory / program).touch()
    return Settings(state=STATE, cache=tmp_path)


@pytest.mark.parametrize("adjusts", [True, False])
def test_containerd_keeps_to_its_state(settings: Settings, *, adjusts: bool) -> None:
    parsed = tomllib.loads(configs.containerd_toml(settings, adjusts_oom_score=adjusts))
    runtime = parsed["plugins"]["io.containerd.cri.v1.runtime"]
    images = parsed["plugins"]["io.containerd.cri.v1.images"]
    assert parsed["root"].startswith(f"{STATE}/")
    assert parsed["state"].startswith(f"{STATE}/")
    assert parsed["grpc"]["address"] == str(settings.containerd_socket)
    assert images["pinned_images"]["sandbox"] == PAUSE_IMAGE
    assert runtime["restrict_oom_score_adj"] is not adjusts
    assert runtime["cni"]["conf_dir"].startswith(f"{STATE}/")
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is False


def test_kubelet_runs_on_version_1_of_control_groups(settings: Settings) -> None:
    kubelet = configs.kubelet(settings)
    assert kubelet["failCgroupV1"] is False
    assert kubelet["cgroupDriver"] == "cgroupfs"
    assert kubelet["clusterDNS"] == [DNS_SERVICE_IP]
    assert kubelet["address"] == NODE_IP
    assert kubelet["containerRuntimeEndpoint"] == f"unix://{settings.containerd_socket}"


def test_pods_hang_on_the_bridge_with_the_node_as_gateway(settings: Settings) -> None:
    plugins: Any = configs.cni(settings)["plugins"]
    bridge = plugins[0]
    assert (bridge["bridge"], bridge["ipam"]["ranges"][0][0]["gateway"]) == (BRIDGE, NODE_IP)
    assert bridge["ipam"]["dataDir"].startswith(f"{STATE}/")


def test_every_component_names_its_program_and_health(settings: Settings) -> None:
    described = [components.describe(settings, name) for name in components.ORDER]
    assert [each.name for each in described] == list(components.ORDER)
    assert all(Path(each.command[0]).is_file() for each in described)
    assert all(each.health.startswith(("http", "unix:")) for each in described)
    used = [port for each in described for port in each.ports]
    assert sorted(used) == sorted(PORTS)


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("kube-controller-manager", "--leader-elect=false"),
        ("kube-scheduler", "--leader-elect=false"),
        ("kube-controller-manager", "--node-monitor-grace-period=180s"),
        ("kube-apiserver", "--kubelet-preferred-address-types=InternalIP"),
        ("kube-apiserver", "--endpoint-reconciler-type=lease"),
        ("kubelet", f"--node-ip={NODE_IP}"),
        ("etcd", "--unsafe-no-fsync"),
        ("etcd", "--client-cert-auth"),
        ("etcd", "--peer-client-cert-auth"),
        ("etcd", f"--trusted-ca-file={STATE}/pki/etcd/ca.crt"),
        ("kube-apiserver", f"--etcd-cafile={STATE}/pki/etcd/ca.crt"),
        ("kube-apiserver", f"--etcd-certfile={STATE}/pki/etcd/client.crt"),
    ],
)
def test_flags_that_an_absent_api_server_needs(settings: Settings, name: str, flag: str) -> None:
    assert flag in components.describe(settings, name).command


def test_the_api_server_gets_no_patience_and_others_the_usual() -> None:
    assert components.PATIENCE_S["kube-apiserver"] < 1


def test_the_store_is_never_spoken_to_in_plain(settings: Settings) -> None:
    words = [w for name in components.ORDER for w in components.describe(settings, name).command]
    stores = [
        word for word in words if word.endswith((f":{PORTS['etcd']}", f":{PORTS['etcd-peer']}"))
    ]
    assert len(stores) == 6
    assert not [word for word in stores if "http://" in word]


def test_private_keys_lie_where_only_their_owner_looks(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("e2e.cluster.layout._LONGEST_STATE", 4096)
    place = Layout(tmp_path / "state")
    place.root.mkdir()
    place.make()
    configs.write_credentials(replace(settings, state=place.root))
    for directory in (place.pki, place.store_keys.directory, place.kubeconfig("admin").parent):
        assert directory.stat().st_mode & 0o077 == 0
