"""A cluster with Paceline installed and a namespace to work in: where demo and smoke run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import access, binaries, existing, lifecycle
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Progress
from e2e.cluster.settings import Settings, from_environment
from e2e.cluster.values import chart_values
from e2e.install import NAMESPACE, Helm, install, install_plugin, pod_host, uninstall
from e2e.job import PodHost
from e2e.kubectl import Kubectl

GONE_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Everything a run needs to act as a user of the cluster.

    Attributes:
        settings: The cluster's.
        kubectl: In the run's namespace.
        helm: With the release installed.
        host: How pods of the operator's image run here.
    """

    settings: Settings
    kubectl: Kubectl
    helm: Helm
    host: PodHost

    @property
    def namespace(self) -> str:
        """Namespace of the run."""
        return self.kubectl.namespace

    @property
    def system(self) -> Kubectl:
        """The same user in the operator's namespace."""
        return replace(self.kubectl, namespace=NAMESPACE)

    @property
    def context(self) -> str | None:
        """Context in the kubeconfig, None for the current one."""
        return self.kubectl.context

    @property
    def programs(self) -> Path:
        """Folder of the cluster's compiled programs."""
        return self.settings.cache / "bin"


@contextmanager
def stand(namespace: str, *, keep_cluster: bool) -> Iterator[Stand]:
    """Brings up the cluster, installs the chart, and makes a namespace.

    The namespace goes at the end, also after an interruption; of the cluster only what was
    started here, unless it is to be kept.

    Raises:
        ClusterError, InstallError, KubectlError: Something did not come up; one line says what.
    """
    settings, say = from_environment(), Progress()
    was_up = settings.provider == "existing" or lifecycle.is_up(settings)
    _up(settings, say)
    try:
        place = _install(settings, namespace, say)
        try:
            yield place
        finally:
            _clear(place, say)
    finally:
        if not (was_up or keep_cluster):
            lifecycle.down(settings, say)


def take_down() -> None:
    """Removes the release, and the cluster where it was built here."""
    settings, say = from_environment(), Progress()
    if settings.provider == "existing":
        kubectl = access.kubectl(settings)
        uninstall(Helm(_helm(settings), kubectl))
        existing.down(settings, say)
    else:
        lifecycle.down(settings, say)


def _up(settings: Settings, say: Progress) -> None:
    if settings.provider == "existing":
        existing.up(settings, say)
    else:
        lifecycle.up(settings, say)


def _install(settings: Settings, namespace: str, say: Progress) -> Stand:
    values = _values(settings)
    kubectl = access.kubectl(settings, namespace)
    helm = Helm(_helm(settings), kubectl)
    say("chart", "helm upgrade --install paceline charts/paceline")
    install(helm, values)
    plugin = install_plugin(kubectl)
    say("plug-in", f"kubectl paceline is {plugin}")
    _make_namespace(kubectl, say)
    return Stand(settings=settings, kubectl=kubectl, helm=helm, host=pod_host(values))


def _values(settings: Settings) -> Mapping[str, Any]:
    """Chart values: the host's environments on a built cluster, the user's elsewhere."""
    if settings.provider == "built":
        return chart_values(settings)
    named = os.environ.get("PACELINE_VALUES")
    if named is None:
        raise ClusterError(
            "an existing cluster needs images it can pull", "name a values file in PACELINE_VALUES"
        )
    values: Mapping[str, Any] = yaml.safe_load(Path(named).read_text())
    return values


def _helm(settings: Settings) -> Path:
    return binaries.require(settings.cache, "helm")


def _make_namespace(kubectl: Kubectl, say: Progress) -> None:
    """A namespace that an earlier run left is removed first."""
    name = kubectl.namespace
    if kubectl.run("get", "namespace", name, "--ignore-not-found").strip():
        say("namespace", f"{name} is there from an earlier run; waiting for its removal")
        _delete_namespace(kubectl)
    kubectl.run("create", "namespace", name)


def _delete_namespace(kubectl: Kubectl) -> None:
    """Objects first: the namespace controller looks again only after the longest grace time."""
    kubectl.run(
        *("delete", "inferenceservices,jobs", "--all", "--cascade=foreground"),
        *("--ignore-not-found", f"--timeout={GONE_S}s"),
        timeout_s=GONE_S + 15,
    )
    kubectl.run(
        *("wait", "pods", "--all", "--for=delete", f"--timeout={GONE_S}s"), timeout_s=GONE_S + 15
    )
    kubectl.run(
        *("delete", "namespace", kubectl.namespace, "--ignore-not-found", f"--timeout={GONE_S}s"),
        timeout_s=GONE_S + 15,
    )


def _clear(place: Stand, say: Progress) -> None:
    say("namespace", f"deleting {place.namespace}")
    _delete_namespace(place.kubectl)
