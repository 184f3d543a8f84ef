"""Installs Paceline the way a user would: the model on the node, the chart by Helm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.job import PodHost
from e2e.kubectl import Kubectl

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "paceline"
RELEASE = "paceline"
NAMESPACE = "paceline-system"
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
            InstallError: It failed.
        """
        where = ["--kubeconfig", str(self.kubectl.kubeconfig)]
        if self.kubectl.context:
            where += ["--kube-context", self.kubectl.context]
        done = subprocess.run(
            [str(self.program), *args, *where],
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=READY_S + 60,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise InstallError(f"helm {args[0]}: {last}")
        return done.stdout


def install(helm: Helm, values: Mapping[str, Any]) -> None:
    """Installs or upgrades the release and waits until the operator is ready.

    Helm never upgrades definitions, so they are applied first, as the chart's notes say.
    """
    helm.kubectl.run(
        "apply", "--server-side", "--force-conflicts", "-f", str(CHART / "crds"), timeout_s=60
    )
    helm.run(
        *("upgrade", "--install", RELEASE, str(CHART)),
        *("--namespace", NAMESPACE, "--create-namespace"),
        *("--values", "-", "--wait", "--timeout", f"{READY_S}s"),
        stdin=json.dumps(values),
    )


def uninstall(helm: Helm) -> None:
    """Removes the release; its definitions stay, as Helm leaves them."""
    helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait")


def place_model(source: Path) -> Path:
    """Puts the model where the samples expect it on the node.

    Raises:
        InstallError: There is no model file, or the node's folder cannot be written.
    """
    target = MODEL_DIRECTORY / source.name
    try:
        if target.exists() and target.stat().st_size == source.stat().st_size:
            return target
        MODEL_DIRECTORY.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        shutil.copyfile(source, partial)
        partial.chmod(0o644)
        partial.replace(target)
    except OSError as error:
        raise InstallError(f"model {source}: {error.strerror} - run `make demo` as root") from error
    return target


def remove_model(source: Path) -> None:
    """Undoes `place_model`."""
    (MODEL_DIRECTORY / source.name).unlink(missing_ok=True)
    for folder in (MODEL_DIRECTORY, MODEL_DIRECTORY.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def install_plugin(kubectl: Kubectl) -> Path:
    """Puts `kubectl-paceline` beside kubectl, where `kubectl paceline` finds it."""
    source = ROOT / ".venv-operator" / "bin" / "kubectl-paceline"
    target = kubectl.program.parent / source.name
    if target.is_symlink() or target.exists():
        target.unlink()
    target.symlink_to(source)
    return target


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
