"""kubectl as a user would call it: the demo and the smoke test touch objects through it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLUGINS = Path(__file__).parents[1] / ".venv-operator" / "bin"
"""Where the operator's environment keeps `kubectl-paceline`."""


class KubectlError(Exception):
    """kubectl failed; the message is its own last line."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One cluster and one namespace.

    Attributes:
        program: Path of kubectl.
        kubeconfig: File to use.
        namespace: Default namespace of every call.
        context: Context in the file; None is the current one.
    """

    program: Path
    kubeconfig: Path
    namespace: str = "default"
    context: str | None = None

    def argv(self, *args: str) -> list[str]:
        """The full command line."""
        where = ["--kubeconfig", str(self.kubeconfig), "-n", self.namespace]
        if self.context:
            where += ["--context", self.context]
        return [str(self.program), *where, *args]

    def shown(self, *args: str) -> str:
        """The call as people paste it, who have KUBECONFIG and PATH as `environment` has them."""
        where = ["-n", self.namespace, *(["--context", self.context] if self.context else [])]
        # kubectl finds a plug-in by its first word, so flags follow that.
        words = [*args, *where] if args[0] == "paceline" else [*where, *args]
        return shlex.join(["kubectl", *words])

    def environment(self, *programs: Path) -> dict[str, str]:
        """Environment of a call: this cluster, and first on PATH `programs` and kubectl."""
        folders = [*map(str, programs), str(self.program.parent), os.environ.get("PATH", "")]
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": os.pathsep.join(filter(None, folders)),
        }

    def run(self, *args: str, stdin: str | None = None, timeout_s: float = 120.0) -> str:
        """Runs a command and returns what it printed.

        Raises:
            KubectlError: It failed or took longer than `timeout_s`.
        """
        return self._finished(self.argv(*args), " ".join(args), stdin, timeout_s, ())

    def _finished(
        self,
        command: Sequence[str],
        words: str,
        stdin: str | None,
        timeout_s: float,
        programs: Sequence[Path],
    ) -> str:
        try:
            done = subprocess.run(
                command,
                input=stdin,
                stdin=None if stdin is not None else subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                env=self.environment(*programs),
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(f"kubectl {words}: no end after {timeout_s:.0f} s") from error
        except OSError as error:
            raise KubectlError(f"kubectl {words}: {self.program}: {error.strerror}") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise KubectlError(f"kubectl {words}: {last}")
        return done.stdout

    def paceline(self, *args: str) -> str:
        """Runs `kubectl paceline ...` of this checkout; a plug-in's flags come after its name.

        Raises:
            KubectlError: It failed.
        """
        where = ["--context", self.context] if self.context else []
        command = [str(self.program), "paceline", *args, "-n", self.namespace, *where]
        return self._finished(command, f"paceline {' '.join(args)}", None, 60.0, (PLUGINS,))

    def json(self, *args: str) -> Any:
        """Runs `kubectl ... -o json`."""
        return json.loads(self.run(*args, "-o", "json"))

    def apply(self, *objects: Mapping[str, Any]) -> str:
        """Applies objects given as data."""
        body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self.run("apply", "-f", "-", stdin=json.dumps(body))

    def apply_file(self, path: Path) -> str:
        """Applies a manifest file."""
        return self.run("apply", "-f", str(path))

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> str:
        """Merge-patches one object."""
        return self.run("patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    def wait(self, *args: str, timeout_s: int) -> str:
        """`kubectl wait ... --timeout`."""
        return self.run("wait", *args, f"--timeout={timeout_s}s", timeout_s=timeout_s + 15)

    def stream(self, *args: str) -> Generator[str]:
        """Lines of a long-running command, as they come; ends it when the caller stops."""
        with subprocess.Popen(
            self.argv(*args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment(),
        ) as child:
            assert child.stdout is not None
            try:
                yield from child.stdout
            finally:
                child.terminate()

    def pod_metrics(self, pod: str, port: int = 8001) -> str:
        """Prometheus text of one pod, through the API server's proxy."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy/metrics"
        return self.run("get", "--raw", path, timeout_s=10)


def items(listing: Any) -> Sequence[dict[str, Any]]:
    """The objects of a kubectl list."""
    found: Sequence[dict[str, Any]] = listing.get("items", [])
    return found
