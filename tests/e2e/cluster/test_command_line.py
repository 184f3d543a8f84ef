"""The command line: every expected failure is one line with a remedy, exit code 2."""

import socket
from pathlib import Path

import pytest

from e2e.cluster import __main__ as command_line
from e2e.cluster import access, cgroups, dns, lifecycle, preflight, status
from e2e.cluster.errors import ClusterError, PortInUseError
from e2e.cluster.settings import CLUSTER_DOMAIN, DNS_SERVICE_IP, from_environment

VARIABLES = ("PACELINE_CLUSTER", "PACELINE_KUBE_CONTEXT", "PACELINE_STATE", "KUBECONFIG")


@pytest.fixture(autouse=True)
def environment_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away what the caller's environment says; each case names what it needs."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "arguments", "words"),
    [
        ({"PACELINE_CLUSTER": "kind"}, ["up"], "kind is not a provider"),
        ({"PACELINE_CLUSTER": "existing"}, ["up"], "set PACELINE_KUBE_CONTEXT"),
        ({"PACELINE_STATE": "/nowhere/at-all"}, ["check"], "the cluster is down"),
        ({"PACELINE_KUBE_CONTEXT": "mine"}, ["check"], "only the built cluster"),
        ({"PACELINE_KUBE_CONTEXT": "mine", "KUBECONFIG": "/nowhere"}, ["up"], "does not answer"),
    ],
)
def test_failures_are_one_line(
    environment: dict[str, str],
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert command_line.main(arguments) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("cluster: ")
    assert words in last


def test_down_leaves_an_existing_cluster_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PACELINE_KUBE_CONTEXT", "mine")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert command_line.main(["down"]) == 0
    assert "nothing was stopped or removed" in capsys.readouterr().err


def test_status_of_no_cluster_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PACELINE_STATE", "/nowhere/at-all")
    assert command_line.main(["status"]) == 1
    assert "down" in capsys.readouterr().out
    assert command_line.main(["status", "--json"]) == 1
    assert '"up": false' in capsys.readouterr().out


@pytest.mark.parametrize("command", ["up", "status"])
def test_a_cluster_that_is_up_is_given_to_the_reader(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = from_environment()
    well = status.Report("built", settings.kubeconfig, up=True, node_ready=True)
    monkeypatch.setattr(lifecycle, "up", lambda *_: None)
    monkeypatch.setattr(status, "gather", lambda _settings: well)
    assert command_line.main([command]) == 0
    assert capsys.readouterr().out.endswith(f"\n{access.exports(settings)}\n"[command == "up" :])


def test_kubeconfig_prints_its_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PACELINE_STATE", "/nowhere/at-all")
    assert command_line.main(["kubeconfig"]) == 0
    assert capsys.readouterr().out == "/nowhere/at-all/kubeconfig/admin.conf\n"


def test_a_port_in_use_is_named_with_how_to_find_its_owner() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} \\(etcd\\) is in use") as caught:
            preflight._check_port("etcd", port)
    assert f":{port}" in caught.value.remedy


@pytest.mark.parametrize(("bits", "may"), [("000001ffffffffff", True), ("000001fffeffffff", False)])
def test_the_right_to_lower_scores_is_read_from_the_process(
    bits: str, may: bool, tmp_path: Path
) -> None:
    (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{bits}\n")
    assert preflight.may_adjust_oom_score(tmp_path / "status") is may


def test_cgroups_are_found_on_both_versions(tmp_path: Path) -> None:
    for name in ("cpu", "memory"):
        (tmp_path / name).mkdir()
    assert cgroups.hierarchies(tmp_path) == [tmp_path / "cpu", tmp_path / "memory"]
    (tmp_path / "cgroup.controllers").touch()
    assert cgroups.hierarchies(tmp_path) == [tmp_path]


def test_dns_serves_the_cluster_at_its_fixed_address() -> None:
    objects = dns.objects(Path("/programs/kubebox"))
    by_kind = {item["kind"]: item for item in objects}
    assert by_kind["Service"]["spec"]["clusterIP"] == DNS_SERVICE_IP
    assert f"kubernetes {CLUSTER_DOMAIN}" in by_kind["ConfigMap"]["data"]["Corefile"]
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert all(rule["verbs"] == ["list", "watch"] for rule in by_kind["ClusterRole"]["rules"])


def test_a_pod_without_status_is_shown_as_unknown() -> None:
    pod = {"metadata": {"namespace": "a", "name": "b"}, "spec": {"containers": [{}, {}]}}
    state = status.pod_state(pod)
    assert (state.phase, state.ready, state.restarts) == ("Unknown", "0/2", 0)


def test_restarts_and_ready_containers_are_counted() -> None:
    statuses = [{"ready": True, "restartCount": 2}, {"ready": False, "restartCount": 1}]
    pod = {
        "metadata": {"namespace": "a", "name": "b"},
        "spec": {"containers": [{}, {}]},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }
    state = status.pod_state(pod)
    assert (state.phase, state.ready, state.restarts) == ("Running", "1/2", 3)


def test_without_root_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="needs root") as caught:
        preflight._check_rights()
    assert "sudo" in caught.value.remedy


def test_missing_capabilities_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(preflight, "effective_capabilities", lambda: 1 << 12)
    with pytest.raises(ClusterError, match="lacks CAP_SYS_CHROOT, CAP_SYS_ADMIN"):
        preflight._check_rights()
