"""Installs Paceline the way a user would, by Helm, and removes what it installed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.job import PodHost
from e2e.kubectl import Kubectl, items
from e2e.mark import BY, LABEL, MARK, Found
from e2e.placement import PlacementError, place, remove

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "paceline"
RELEASE = "paceline"
NAMESPACE = "paceline-system"
DEFINITION = "inferenceservices.paceline.dev"
MODEL_DIRECTORY = Path("/var/lib/paceline/models")
READY_S = 180


class InstallError(Exception):
    """Helm or a file failed; the text is one line for people."""


@dataclass(frozen=True, slots=True)
class Helm:
    """helm for one cluster.

    Attributes:
        program: Path of helm.
        kubectl: Names kubeconfig and context.
    """

    program: Path
    kubectl: Kubectl

    def run(self, *args: str, stdin: str | None = None) -> str:
        """Runs a command and returns what it printed.

        Raises:
            InstallError: It failed, or took longer than it may.
        """
        try:
            done = subprocess.run(
                self.argv(*args),
                input=stdin,
                stdin=None if stdin is not None else subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=READY_S + 60,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise InstallError(f"helm {args[0]}: no end after {READY_S + 60} s") from error
        except OSError as error:
            raise InstallError(f"helm {args[0]}: {self.program}: {error.strerror}") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise InstallError(f"helm {args[0]}: {last}")
        return done.stdout

    def argv(self, *args: str) -> list[str]:
        """The full command line."""
        where = ["--kubeconfig", str(self.kubectl.kubeconfig)]
        if self.kubectl.context:
            where += ["--kube-context", self.kubectl.context]
        return [str(self.program), *args, *where]


def install(helm: Helm, values: Mapping[str, Any]) -> None:
    """Installs or upgrades the release, marked as a run's, and waits until it is ready.

    Helm never upgrades definitions, so they are applied first, as the chart's notes say.
    """
    kubectl = helm.kubectl
    kubectl.run("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "crds"))
    kubectl.run("label", "crd", DEFINITION, LABEL, "--overwrite")
    if not _exists(kubectl, "namespace", NAMESPACE):
        make_namespace(kubectl, NAMESPACE)
    helm.run(
        *("upgrade", "--install", RELEASE, str(CHART), "--namespace", NAMESPACE),
        *("--labels", LABEL, "--values", "-", "--wait", "--timeout", f"{READY_S}s"),
        stdin=json.dumps(values),
    )


def look(helm: Helm, *namespaces: str) -> tuple[Found, ...]:
    """What is there of that which a run makes: definitions, release, and its namespaces."""
    kubectl = helm.kubectl
    return (
        _found(kubectl, "crd", DEFINITION),
        _release(helm),
        *(_found(kubectl, "namespace", name) for name in namespaces),
    )


def uninstall(helm: Helm) -> list[str]:
    """Removes the release, its namespace and its definitions, as far as a run made them.

    Definitions stay while anybody's objects need them: these would go with them.

    Returns:
        What a run made and is still there, in words.
    """
    kubectl = helm.kubectl
    if _release(helm).marked:
        helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait")
    if _found(kubectl, "namespace", NAMESPACE).marked:
        kubectl.run("delete", "namespace", NAMESPACE, "--timeout=120s", timeout_s=135)
    if not _found(kubectl, "crd", DEFINITION).marked:
        return []
    users = items(kubectl.json("get", DEFINITION, "--all-namespaces"))
    if users:
        first = users[0]["metadata"]
        return [f"crd {DEFINITION}, which {first['namespace']}/{first['name']} needs"]
    kubectl.run("delete", "-f", str(CHART / "crds"), "--ignore-not-found")
    return []


def make_namespace(kubectl: Kubectl, name: str) -> None:
    """Makes a namespace that is marked as a run's."""
    labels = {MARK: BY}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    )


def marked_namespaces(kubectl: Kubectl) -> list[str]:
    """Names of the namespaces that runs made."""
    listed = items(kubectl.json("get", "namespaces", "-l", LABEL))
    return [each["metadata"]["name"] for each in listed]


def place_model(source: Path) -> Path:
    """Puts the model where the samples expect it on the node.

    Raises:
        InstallError: There is no model file, the node's folder cannot be written, or another
            file of that name is there.
    """
    try:
        return place(source, MODEL_DIRECTORY)
    except PlacementError as error:
        raise InstallError(str(error)) from error


def remove_model(source: Path) -> None:
    """Undoes `place_model`; a file that was there before, or has changed since, stays.

    Raises:
        InstallError: The node's folder cannot be written.
    """
    try:
        remove(source.name, MODEL_DIRECTORY)
    except PlacementError as error:
        raise InstallError(str(error)) from error


def pod_host(values: Mapping[str, Any]) -> PodHost:
    """How further pods run the operator's Python, read from the chart's values."""
    operator = values.get("operator", {})
    command = operator.get("command") or ["paceline-operator"]
    program = Path(command[0])
    return PodHost(
        image=values.get("image", "paceline-operator:0.1.0"),
        python=str(program.with_name("python")) if program.is_absolute() else "python",
        pull_policy=values.get("imagePullPolicy", "IfNotPresent"),
        volumes=operator.get("extraVolumes", ()),
        mounts=operator.get("extraVolumeMounts", ()),
        env=operator.get("env", ()),
    )


def _found(kubectl: Kubectl, kind: str, name: str) -> Found:
    shown = kubectl.run("get", kind, name, "--ignore-not-found", "-o", "json").strip()
    labels = json.loads(shown)["metadata"].get("labels", {}) if shown else {}
    return Found(f"{kind} {name}", bool(shown), labels.get(MARK) == BY)


def _exists(kubectl: Kubectl, kind: str, name: str) -> bool:
    return _found(kubectl, kind, name).exists


def _release(helm: Helm) -> Found:
    """Helm keeps each revision as a Secret; its own selector reads the labels of the last."""
    named = ("list", "--namespace", NAMESPACE, "--filter", f"^{RELEASE}$", "-o", "json")
    found = json.loads(helm.run(*named))
    marked = json.loads(helm.run(*named, "--selector", LABEL))
    return Found(f"release {NAMESPACE}/{RELEASE}", bool(found), bool(marked))
