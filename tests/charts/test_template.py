"""What the chart renders."""

from __future__ import annotations

import re

import pytest
import yaml

from paceline_operator.domain.pod import USER_ID
from paceline_operator.settings import Settings
from tests.support.chart import CHART, NAMESPACE, Object, Rendered, helm, template


@pytest.fixture(scope="module")
def plain() -> Rendered:
    return template()


def test_lint_finds_no_fault() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_renders_nothing_cluster_wide_but_rights(plain: Rendered) -> None:
    cluster_wide = {o["kind"] for o in plain.objects if "namespace" not in o["metadata"]}
    assert cluster_wide == {"ClusterRole", "ClusterRoleBinding"}
    assert {o["metadata"].get("namespace", NAMESPACE) for o in plain.objects} == {NAMESPACE}


def test_names_and_labels(plain: Rendered) -> None:
    for each in plain.objects:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/name"] == "paceline"
        assert len(each["metadata"]["name"]) <= 63
    deployment = plain.only("Deployment")
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert plain.only("Service")["spec"]["selector"] == selector


def test_names_that_must_be_host_names_fit_for_a_long_release() -> None:
    done = helm("template", "a" * 53, str(CHART), "--namespace", NAMESPACE)
    assert done.returncode == 0, done.stderr
    rendered = Rendered([each for each in yaml.safe_load_all(done.stdout) if each])
    for kind in ("Deployment", "Service", "ConfigMap", "ServiceAccount", "Role"):
        assert len(rendered.only(kind)["metadata"]["name"]) <= 58


def test_pod_is_hardened(plain: Rendered) -> None:
    pod, container = plain.pod, plain.container
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod["volumes"])


def test_writable_places_are_volumes_with_a_limit(plain: Rendered) -> None:
    mounts = [m for m in plain.container["volumeMounts"] if not m.get("readOnly")]
    assert [m["mountPath"] for m in mounts] == ["/tmp"]  # noqa: S108 - the mount under test
    volumes = {volume["name"]: volume for volume in plain.pod["volumes"]}
    assert "sizeLimit" in volumes["tmp"]["emptyDir"]


def test_token_is_mounted_in_the_operator_only(plain: Rendered) -> None:
    account = plain.only("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert plain.pod["automountServiceAccountToken"] is True
    assert plain.pod["serviceAccountName"] == account["metadata"]["name"]


def test_probes_and_ports(plain: Rendered) -> None:
    container = plain.container
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    paths = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert paths == {
        "startupProbe": {"path": "/healthz", "port": "http"},
        "livenessProbe": {"path": "/healthz", "port": "http"},
        "readinessProbe": {"path": "/readyz", "port": "http"},
    }


def test_resources_have_no_cpu_limit(plain: Rendered) -> None:
    resources = plain.container["resources"]
    assert {"cpu", "memory"} == resources["requests"].keys()
    assert {"memory"} == resources["limits"].keys()


def test_environment_tells_the_process_where_it_is(plain: Rendered) -> None:
    env = {item["name"]: item for item in plain.container["env"]}
    assert env["PACELINE_SETTINGS"]["value"] == "/etc/paceline/settings.yaml"
    assert env["POD_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert env["POD_NAMESPACE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"


NESTED = ("hostPathModels", "metrics", "blastRadius", "recording")


def test_settings_hold_every_documented_key(plain: Rendered) -> None:
    table = re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.M)
    keys = {
        f"{key}.{inner}" if isinstance(value, dict) and inner else key
        for key, value in plain.settings.items()
        for inner in (value if key in NESTED else [""])
    }
    # What lies below a documented object is told in a table of its own.
    documented = {
        key
        for key in table
        if key.split(".")[0] in plain.settings and key.rpartition(".")[0] not in table
    }
    assert documented == keys
    fields = {field.alias or name for name, field in Settings.model_fields.items()}
    assert plain.settings.keys() == fields


def test_defaults_as_the_operator_reads_them(plain: Rendered) -> None:
    read = Settings.model_validate(plain.settings)
    assert read.lease_namespace == NAMESPACE
    assert read.lease_name == plain.only("Role")["metadata"]["name"]
    assert read.host_path_models.enabled is False
    assert read.watch_namespaces == ()
    assert read.platform().host_path_prefixes == ()


OVERLAY: Object = {
    "metadata": {"annotations": {"a": "b"}},
    "spec": {"volumes": [{"name": "code", "hostPath": {"path": "/opt/code"}}]},
}
CHOSEN: Object = {
    "imagePullPolicy": "Always",
    "watchNamespaces": ["one", "two"],
    "maxMode": "Off",
    "blastRadius": {"replicasPerMinute": 12},
    "operator": {"workers": 3},
    "engine": {"image": "registry.example/engine:1", "podOverlay": OVERLAY},
    "proxy": {"image": "haproxy:x", "podOverlay": {"spec": {"nodeSelector": {"a": "b"}}}},
    "model": {"hostPath": {"enabled": True, "prefixes": ["/models", "/mnt/more"]}},
    "recording": {"directory": "/records", "maxMegabytes": 8},
}


def test_values_reach_the_settings() -> None:
    settings = template(CHOSEN).settings
    assert settings == {
        "engineImage": "registry.example/engine:1",
        "proxyImage": "haproxy:x",
        "imagePullPolicy": "Always",
        "enginePodOverlay": OVERLAY,
        "proxyPodOverlay": {"spec": {"nodeSelector": {"a": "b"}}},
        "clusterDomain": "cluster.local",
        "hostPathModels": {"enabled": True, "prefixes": ["/models", "/mnt/more"]},
        "watchNamespaces": ["one", "two"],
        "maxMode": "Off",
        "blastRadius": {"servicesPerMinute": 120, "replicasPerMinute": 12},
        "workers": 3,
        "recording": {"directory": "/records", "maxMegabytes": 8},
        "leaseNamespace": NAMESPACE,
        "leaseName": "paceline-leader",
        "metrics": template({}).settings["metrics"],
    }
    assert Settings.model_validate(settings).platform().host_path_prefixes == (
        "/models",
        "/mnt/more",
    )


@pytest.mark.parametrize(
    ("volume", "source"),
    [
        ({}, {"emptyDir": {"sizeLimit": "9Mi"}}),
        ({"persistentVolumeClaim": {"claimName": "c"}},) * 2,
    ],
)
def test_records_have_a_volume_of_their_own(volume: Object, source: Object) -> None:
    values = {"recording": {"directory": "/records", "maxMegabytes": 8, "volume": volume}}
    rendered = template(values)
    mounts = {m["name"]: m for m in rendered.container["volumeMounts"]}
    assert mounts["recording"] == {"name": "recording", "mountPath": "/records"}
    volumes = rendered.only("Deployment")["spec"]["template"]["spec"]["volumes"]
    assert {"name": "recording", **source} in volumes


@pytest.mark.parametrize(
    ("directory", "volume", "replicas", "kind"),
    [
        ("/records", {"persistentVolumeClaim": {"claimName": "c"}}, 1, "Recreate"),
        ("/records", {"persistentVolumeClaim": {"claimName": "c"}}, 2, "RollingUpdate"),
        ("/records", {"nfs": {"server": "s", "path": "/p"}}, 1, "RollingUpdate"),
        ("/records", {}, 1, "RollingUpdate"),
        ("", {"persistentVolumeClaim": {"claimName": "c"}}, 1, "RollingUpdate"),
    ],
)
def test_a_claim_is_let_go_before_it_is_mounted_again(
    directory: str, volume: Object, replicas: int, kind: str
) -> None:
    values = {
        "recording": {"directory": directory, "maxMegabytes": 8, "volume": volume},
        "operator": {"replicas": replicas},
    }
    strategy = template(values).only("Deployment")["spec"]["strategy"]
    rolled = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert strategy == {"type": kind, **(rolled if kind == "RollingUpdate" else {})}


def test_nothing_is_recorded_by_default(plain: Rendered) -> None:
    assert "recording" not in {m["name"] for m in plain.container["volumeMounts"]}
    assert Settings.model_validate(plain.settings).recording.directory == ""


def test_values_reach_the_pod() -> None:
    rendered = template(
        {
            "image": "registry.example/operator:1",
            "imagePullPolicy": "Never",
            "imagePullSecrets": ["login"],
            "operator": {
                "replicas": 2,
                "command": ["/usr/bin/python3", "-m", "x"],
                "env": [{"name": "PYTHONPATH", "value": "/code"}],
                "extraVolumes": [{"name": "code", "hostPath": {"path": "/opt/code"}}],
                "extraVolumeMounts": [{"name": "code", "mountPath": "/code", "readOnly": True}],
                "podLabels": {"team": "a"},
                "podAnnotations": {"note": "b"},
                "priorityClassName": "high",
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "resources": {"limits": {"cpu": 1}},
            },
        }
    )
    deployment, pod, container = rendered.only("Deployment"), rendered.pod, rendered.container
    assert deployment["spec"]["replicas"] == 2
    assert container["image"] == "registry.example/operator:1"
    assert container["imagePullPolicy"] == "Never"
    assert container["command"] == ["/usr/bin/python3", "-m", "x"]
    assert {"name": "PYTHONPATH", "value": "/code"} in container["env"]
    assert container["volumeMounts"][-1]["mountPath"] == "/code"
    assert container["resources"]["limits"] == {"cpu": 1, "memory": "512Mi"}
    assert pod["volumes"][-1]["hostPath"] == {"path": "/opt/code"}
    assert pod["imagePullSecrets"] == [{"name": "login"}]
    assert pod["priorityClassName"] == "high"
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "k", "operator": "Exists"}]
    assert pod["affinity"] == {"nodeAffinity": {}}
    metadata = deployment["spec"]["template"]["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"]["note"] == "b"


def test_a_changed_setting_rolls_the_operator_and_nothing_else_does(plain: Rendered) -> None:
    def checksum(rendered: Rendered) -> str:
        found = rendered.only("Deployment")["spec"]["template"]["metadata"]["annotations"]
        return str(found["checksum/settings"])

    assert checksum(template({"maxMode": "Off"})) != checksum(plain)
    assert checksum(template({"operator": {"podLabels": {"a": "b"}}})) == checksum(plain)


def test_service_monitor_is_off_until_asked_for(plain: Rendered) -> None:
    assert plain.of_kind("ServiceMonitor") == []
    asked = template({"serviceMonitor": {"enabled": True, "labels": {"release": "prom"}}})
    monitor = asked.only("ServiceMonitor")
    assert [each["honorLabels"] for each in monitor["spec"]["endpoints"]] == [True]
    assert monitor["metadata"]["labels"]["release"] == "prom"
    service = asked.only("Service")
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert {end["port"] for end in monitor["spec"]["endpoints"]} <= ports


def test_definition_is_installed_with_the_chart() -> None:
    rendered = template(None, "--include-crds")
    definition = rendered.only("CustomResourceDefinition")
    assert definition["metadata"]["name"] == "inferenceservices.paceline.dev"


def test_notes_say_how_the_definition_is_upgraded() -> None:
    done = helm(
        "install", "paceline", str(CHART), "--namespace", NAMESPACE, "--dry-run=client",
        "--set", "watchNamespaces={one,two}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    assert "kubectl apply --server-side --force-conflicts -f crds/" in notes
    assert "one, two" in notes
    assert "file:// are refused" in notes


def test_every_value_is_described() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())

    def undescribed(values: Object, schema: Object, path: str) -> list[str]:
        found = []
        for name, value in values.items():
            known = schema.get("properties", {}).get(name, {})
            if "description" not in known:
                found.append(f"{path}.{name}")
            if isinstance(value, dict) and "properties" in known:
                if known.get("additionalProperties") is not False:
                    found.append(f"{path}.{name} takes unknown keys")
                if name != "resources":
                    found += undescribed(value, known, f"{path}.{name}")
        return found

    assert undescribed(values, schema, "") == []
    assert schema["additionalProperties"] is False
    assert values.keys() == schema["properties"].keys() - {"global"}


def test_readme_names_every_value_and_only_those() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    readme = (CHART / "README.md").read_text()

    def leaves(node: Object, path: str = "") -> list[str]:
        found = []
        for name, value in node.items():
            deeper = isinstance(value, dict) and value and name != "resources"
            found += leaves(value, f"{path}{name}.") if deeper else [f"{path}{name}"]
        return found

    rows = [line.split("|") for line in readme.splitlines() if line.startswith("| `")]
    in_cells = {
        name for row in rows for cell in row[1:4] for name in re.findall(r"`([^`]+)`", cell)
    }
    assert [leaf for leaf in leaves(values) if leaf not in in_cells] == []
    roots = tuple(f"{name}." for name, value in values.items() if isinstance(value, dict))
    named = {name for name in in_cells if name.startswith(roots)}
    known = set(leaves(values))
    assert {
        n for n in named - known if not any(leaf.startswith(f"{n}.") for leaf in known)
    } == set()
