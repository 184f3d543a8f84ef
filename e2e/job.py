"""Runs the load generator as a Job inside the cluster and follows what it says."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.kubectl import Kubectl, KubectlError
from e2e.load.record import Record, read_records
from e2e.load.report import percentile

SOURCES = Path(__file__).with_name("load")
MOUNT = "/load"
FIRST_LINE_S = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHost:
    """What a pod of the operator's image needs to run Python here.

    Attributes:
        image: Image with the operator's environment.
        python: Interpreter inside it.
        pull_policy: Image pull policy.
        volumes: Pod volumes to add.
        mounts: Where they are mounted.
        env: Further environment variables.
    """

    image: str
    python: str = "python"
    pull_policy: str = "IfNotPresent"
    volumes: Sequence[Mapping[str, Any]] = ()
    mounts: Sequence[Mapping[str, Any]] = ()
    env: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class LoadJob:
    """One run of the load generator.

    Attributes:
        kubectl: Cluster and namespace.
        host: How its pod runs Python.
        name: Name of Job and ConfigMap.
        args: Arguments of `python -m e2e.load`.
        deadline_s: The Job is ended after this time, whatever happens.
    """

    kubectl: Kubectl
    host: PodHost
    name: str
    args: Sequence[str]
    deadline_s: int = 600
    labels: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Creates the Job; an earlier one of that name is removed first."""
        self.delete()
        self.kubectl.apply(self._sources(), self._job())

    def delete(self) -> None:
        """Removes Job, pods and ConfigMap."""
        self.kubectl.run(
            "delete", "job,configmap", self.name, "--ignore-not-found", "--cascade=foreground"
        )

    def wait_running(self) -> None:
        """Waits until the generator's container has started.

        Raises:
            KubectlError: It did not within 90 s.
        """
        deadline = time.monotonic() + FIRST_LINE_S
        while time.monotonic() < deadline:
            pods = self.kubectl.json("get", "pods", "-l", f"job-name={self.name}")["items"]
            if any(pod["status"].get("phase") in {"Running", "Succeeded"} for pod in pods):
                return
            if any(pod["status"].get("phase") == "Failed" for pod in pods):
                raise KubectlError(f"job {self.name}: {self._last_words()}")
            time.sleep(0.5)
        raise KubectlError(f"job {self.name}: its pod did not start within {FIRST_LINE_S} s")

    def follow(self) -> Iterator[str]:
        """Lines as they are printed, until the generator ends."""
        yield from self.kubectl.stream("logs", "-f", f"job/{self.name}")

    def finish(self) -> None:
        """Has the generator send nothing further and wait for what is in flight.

        Raises:
            KubectlError: It cannot be told, and has not ended by itself.
        """
        tell = f"import os; os.kill(1, {signal.SIGUSR1:d})"
        try:
            self.kubectl.run("exec", f"job/{self.name}", "--", self.host.python, "-c", tell)
        except KubectlError:
            if not self._succeeded():
                raise

    def lines(self) -> list[str]:
        """All lines printed so far; the whole story once the Job has ended."""
        return self.kubectl.run("logs", f"job/{self.name}", "--tail=-1").splitlines()

    def wait_complete(self) -> None:
        """Waits for the end.

        Raises:
            KubectlError: The Job failed or went past its deadline.
        """
        deadline = time.monotonic() + self.deadline_s + FIRST_LINE_S
        while time.monotonic() < deadline:
            if self._succeeded():
                return
            time.sleep(1)
        raise KubectlError(f"job {self.name}: no end within {self.deadline_s} s")

    def has_ended(self) -> bool:
        """Whether the generator has ended, well or badly; False while that cannot be told."""
        try:
            return self._succeeded()
        except KubectlError:
            return True

    def _succeeded(self) -> bool:
        try:
            status = self.kubectl.json("get", "job", self.name).get("status", {})
        except KubectlError:
            return False  # the API server may be away for a while; the deadline bounds this
        for condition in status.get("conditions", []):
            if condition["type"] == "Failed" and condition["status"] == "True":
                raise KubectlError(f"job {self.name}: {condition.get('message', 'failed')}")
        return bool(status.get("succeeded"))

    def _last_words(self) -> str:
        lines = self.lines()
        return lines[-1] if lines else "failed without a word"

    def _sources(self) -> dict[str, Any]:
        data = {path.name: path.read_text() for path in sorted(SOURCES.glob("*.py"))}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name},
            "data": data,
        }

    def _job(self) -> dict[str, Any]:
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "labels": dict(self.labels)},
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": self.deadline_s,
                "template": {"metadata": {"labels": dict(self.labels)}, "spec": self._pod()},
            },
        }

    def _pod(self) -> dict[str, Any]:
        return {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [self._container()],
            "volumes": [
                {"name": "sources", "configMap": {"name": self.name}},
                *self.host.volumes,
            ],
        }

    def _container(self) -> dict[str, Any]:
        return {
            "name": "load",
            "image": self.host.image,
            "imagePullPolicy": self.host.pull_policy,
            "command": [self.host.python, "-m", "e2e.load", *self.args],
            "env": [
                {"name": "PYTHONPATH", "value": MOUNT},
                {"name": "PYTHONUNBUFFERED", "value": "1"},
                {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
                *self.host.env,
            ],
            "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "sources", "mountPath": f"{MOUNT}/e2e/load", "readOnly": True},
                *self.host.mounts,
            ],
        }


@dataclass(frozen=True, slots=True)
class LoadLog:
    """Everything a finished load generator printed.

    Attributes:
        started_s: Unix time at which its plan began.
        records: One per request, by time sent.
        planned: Requests in its plan.
    """

    started_s: float
    records: tuple[Record, ...]
    planned: int

    @property
    def lag_ms(self) -> float:
        """99th percentile of how late requests left: the generator's own lack of CPU."""
        return percentile([(r.sent_s - r.scheduled_s) * 1e3 for r in self.records], 99) or 0.0


def read_log(lines: Sequence[str]) -> LoadLog:
    """Reads the lines of a whole run.

    Raises:
        KubectlError: It ended before its plan did, and not because it was told to come to its
            end, so that requests are unaccounted for.
    """
    start = next((json.loads(x)["start"] for x in lines if x.startswith('{"start"')), None)
    summary = next((json.loads(x)["summary"] for x in lines if x.startswith('{"summary"')), None)
    if start is None or summary is None:
        last = lines[-1] if lines else "no output"
        raise KubectlError(f"the load generator did not finish: {last}")
    records = tuple(read_records(lines))
    planned = int(start["requests"])
    due = int(summary["sent"]) if summary.get("finished") else planned
    if len(records) != due:
        raise KubectlError(f"{due} requests were due, and the load generator sent {len(records)}")
    return LoadLog(float(start["at_s"]), records, planned)
