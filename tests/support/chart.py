"""The chart as Helm renders it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import binaries, settings
from tests.support.rest import APPLY, Rest
from tests.support.tree import ROOT

CHART = ROOT / "charts/paceline"
RELEASE = "paceline"
NAMESPACE = "paceline-system"

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_GRANTING = {
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{namespace}}/rolebindings",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
}

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """Objects of one rendering."""

    objects: list[Object]

    def of_kind(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def only(self, kind: str, ending: str = "") -> Object:
        """The one object of a kind whose name ends so."""
        found = [o for o in self.of_kind(kind) if o["metadata"]["name"].endswith(ending)]
        assert len(found) == 1, f"{len(found)} objects {kind} *{ending}"
        return found[0]

    @property
    def settings(self) -> Object:
        """Content of settings.yaml."""
        found: Object = yaml.safe_load(self.only("ConfigMap")["data"]["settings.yaml"])
        return found

    @property
    def pod(self) -> Object:
        """Pod spec of the operator."""
        found: Object = self.only("Deployment")["spec"]["template"]["spec"]
        return found

    @property
    def container(self) -> Object:
        """The operator's only container."""
        (found,) = self.pod["containers"]
        return dict(found)


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm with state of its own, whatever comes of it."""
    program = binaries.require(settings.from_environment().cache, "helm")
    with tempfile.TemporaryDirectory(prefix="paceline-helm-") as home:
        return subprocess.run(
            [str(program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"HOME": home, "PATH": "/usr/bin:/bin"},
        )


def try_template(
    values: Mapping[str, Any] | None = None, *flags: str
) -> subprocess.CompletedProcess[str]:
    """`helm template` as an installation would render, whatever comes of it."""
    with _values_file(values or {}) as file:
        where = ["--namespace", NAMESPACE, "--values", str(file)]
        return helm("template", RELEASE, str(CHART), *where, *flags)


def template(values: Mapping[str, Any] | None = None, *flags: str) -> Rendered:
    """Objects the chart renders with these values over its own."""
    done = try_template(values, *flags)
    assert done.returncode == 0, done.stderr
    return Rendered([each for each in yaml.safe_load_all(done.stdout) if each])


def install(rest: Rest, rendered: Rendered) -> None:
    """Put what grants rights onto the server, as Helm would."""
    for each in rendered.objects:
        if each["kind"] in _GRANTING:
            namespace = each["metadata"].get("namespace", "")
            path = _GRANTING[each["kind"]].format(namespace=namespace)
            name = each["metadata"]["name"]
            reply = rest.call("PATCH", f"{path}/{name}?fieldManager=helm&force=true", each, APPLY)
            assert reply.status in (200, 201), reply.message


def make_namespace(rest: Rest, name: str) -> None:
    """Make a namespace unless it is there."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert rest.call("POST", "/api/v1/namespaces", body).status in (201, 409)


@contextmanager
def _values_file(values: Mapping[str, Any]) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        yield Path(file.name)
