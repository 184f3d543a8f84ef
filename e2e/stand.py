"""A cluster with Paceline installed and a namespace to work in: where demo, smoke and trial run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from e2e import interruption
from e2e.cluster import access, binaries, existing, lifecycle
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Progress
from e2e.cluster.settings import Settings, from_environment
from e2e.cluster.values import chart_values
from e2e.install import (
    NAMESPACE,
    RELEASE,
    Helm,
    install,
    look,
    make_namespace,
    marked_namespaces,
    pod_host,
    uninstall,
)
from e2e.job import PodHost
from e2e.kubectl import Kubectl, KubectlError
from e2e.mark import Found, foreign

GONE_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Everything a run needs to act as a user of the cluster.

    Attributes:
        settings: The cluster's.
        kubectl: In the run's namespace.
        helm: With the release installed.
        host: How pods of the operator's image run here.
        values: The chart's, as it is installed.
    """

    settings: Settings
    kubectl: Kubectl
    helm: Helm
    host: PodHost
    values: Mapping[str, Any]

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


@contextmanager
def stand(namespace: str, *, keep_cluster: bool, operators: int | None = None) -> Iterator[Stand]:
    """Brings up the cluster, installs the chart, and makes a namespace.

    The namespace goes at the end, also after an interruption; of the cluster only what was
    started here, unless it is to be kept. No other run may use the cluster meanwhile.

    Args:
        namespace: Its name.
        keep_cluster: Whether the cluster outlives the run.
        operators: Processes of the operator, one of which leads; None for the chart's default.

    Raises:
        ClusterError, InstallError, KubectlError: Something did not come up, could not be
            removed, or is somebody else's; one line says what.
    """
    settings, say = from_environment(), Progress()
    with interruption.raised(), access.reserved(settings):
        was_up = settings.provider == "existing" or lifecycle.is_up(settings)
        with _cluster(settings, say, keep=was_up or keep_cluster):
            place = _install(settings, namespace, operators, say)
            with _namespace(place, say):
                yield place


def take_down() -> list[str]:
    """Removes what runs left: namespaces and release, and the cluster where it was built here.

    Returns:
        What could not be removed, in words.

    Raises:
        ClusterError, InstallError, KubectlError: It could not be done.
    """
    settings, say = from_environment(), Progress()
    with interruption.raised(), access.reserved(settings):
        if settings.provider == "built":
            return lifecycle.down(settings, say)
        left = _withdraw(access.kubectl(settings), _helm(settings), say)
        existing.down(settings, say)
        return left


@contextmanager
def _cluster(settings: Settings, say: Progress, *, keep: bool) -> Iterator[None]:
    if settings.provider == "existing":
        existing.up(settings, say)
    else:
        lifecycle.up(settings, say)
    try:
        yield
    except BaseException:
        _down(settings, say, keep=keep)
        raise
    if left := _down(settings, say, keep=keep):
        raise ClusterError(f"the cluster left {'; '.join(left)}", "remove that by hand")


def _down(settings: Settings, say: Progress, *, keep: bool) -> list[str]:
    return [] if keep else lifecycle.down(settings, say)


def _install(settings: Settings, namespace: str, operators: int | None, say: Progress) -> Stand:
    values = _values(settings)
    if operators is not None:
        values = {**values, "operator": {**values.get("operator", {}), "replicas": operators}}
    kubectl = access.kubectl(settings, namespace)
    helm = Helm(_helm(settings), kubectl)
    if settings.provider == "existing":
        _require_own(settings, look(helm, namespace))
    say("chart", "helm upgrade --install paceline charts/paceline")
    install(helm, values)
    say("yours", "to look at it from another shell, paste the next lines there")
    print(access.exports(settings), flush=True)
    return Stand(
        settings=settings, kubectl=kubectl, helm=helm, host=pod_host(values), values=values
    )


def _require_own(settings: Settings, found: tuple[Found, ...]) -> None:
    """Nothing of a user's is upgraded, emptied or, at the end, removed.

    Raises:
        ClusterError: What a run would make is there, and no run made it.
    """
    if what := foreign(found):
        raise ClusterError(
            f"on {settings.context} there is already {what}, which no run of demo or smoke made",
            "choose a cluster without Paceline, or remove it there",
        )


def _withdraw(kubectl: Kubectl, helm: Path, say: Progress) -> list[str]:
    """Removes what carries the mark of a run; the operator goes last, it ends the fleets."""
    for name in marked_namespaces(kubectl):
        if name != NAMESPACE:
            say("namespace", f"deleting {name}")
            _delete_namespace(replace(kubectl, namespace=name))
    say("chart", f"removing the release {NAMESPACE}/{RELEASE}, if a run made it")
    return uninstall(Helm(helm, kubectl))


def _values(settings: Settings) -> Mapping[str, Any]:
    """Chart values: the host's environments on a built cluster, the user's elsewhere."""
    if settings.provider == "built":
        return chart_values(settings)
    named = os.environ.get("PACELINE_VALUES")
    if named is None:
        raise ClusterError(
            "an existing cluster needs images it can pull", "name a values file in PACELINE_VALUES"
        )
    return _read_values(Path(named))


def _read_values(path: Path) -> Mapping[str, Any]:
    try:
        values = yaml.safe_load(path.read_text())
    except OSError as error:
        raise _bad_values(path, error.strerror or str(error)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _bad_values(path, f"no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise _bad_values(path, "not a mapping")
    return values


def _bad_values(path: Path, problem: str) -> ClusterError:
    return ClusterError(f"PACELINE_VALUES={path}: {problem}", "name a file with the chart's values")


def _helm(settings: Settings) -> Path:
    return binaries.require(settings.cache, "helm")


def _fresh_namespace(kubectl: Kubectl, say: Progress) -> None:
    """A namespace that an earlier run left is removed first."""
    name = kubectl.namespace
    if kubectl.run("get", "namespace", name, "--ignore-not-found").strip():
        say("namespace", f"{name} is there from an earlier run; waiting for its removal")
        _delete_namespace(kubectl)
    make_namespace(kubectl, name)


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


@contextmanager
def _namespace(place: Stand, say: Progress) -> Iterator[None]:
    """The run's namespace, from empty to gone."""
    try:
        _fresh_namespace(place.kubectl, say)
        yield
    except BaseException:
        try:
            _clear(place, say)
        except KubectlError as error:
            # What went wrong first is what the reader must see.
            say("namespace", f"{place.namespace} is left: {error}")
        raise
    _clear(place, say)


def _clear(place: Stand, say: Progress) -> None:
    say("namespace", f"deleting {place.namespace}")
    with interruption.held_off():
        _delete_namespace(place.kubectl)
