"""A Prometheus server on the node that scrapes engine pods as it would in any cluster."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.settings import NODE_IP
from e2e.kubectl import Kubectl, KubectlError
from e2e.setup.prometheus import PROGRAM
from e2e.smoke.site import SmokeError
from paceline_operator.domain.contract import HEALTH_PORT, HealthPath
from paceline_operator.domain.names import ENGINE, LABEL_COMPONENT

INTERVAL_S = 5
LOOK_S = 2
CONFIG = "prometheus.yaml"
START_S = 60.0
STOP_S = 20.0


def configuration(targets: Path) -> dict[str, Any]:
    """What it scrapes: engines that a file names, which it reads again as the file changes."""
    job = {
        "job_name": "engines",
        "metrics_path": HealthPath.METRICS.value,
        "file_sd_configs": [{"files": [str(targets)], "refresh_interval": f"{LOOK_S}s"}],
    }
    every = f"{INTERVAL_S}s"
    return {"global": {"scrape_interval": every, "scrape_timeout": every}, "scrape_configs": [job]}


def targets(pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Content of that file: the pods with an address, and the labels that tell whose series is."""
    return [
        {
            "targets": [f"{pod['status']['podIP']}:{HEALTH_PORT}"],
            "labels": {
                "namespace": pod["metadata"]["namespace"],
                "pod": pod["metadata"]["name"],
            },
        }
        for pod in pods
        if pod["status"].get("podIP") and pod["status"].get("phase") == "Running"
    ]


def values(url: str) -> dict[str, Any]:
    """Chart values with which the operator asks that server."""
    return {
        "metrics": {
            "source": "Prometheus",
            "prometheus": {"url": url, "intervalSeconds": INTERVAL_S},
        }
    }


@contextmanager
def _discovery(kubectl: Kubectl, file: Path) -> Iterator[None]:
    """Keeps the file as the cluster is: Debian's server has no discovery of Kubernetes in it."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            with contextlib.suppress(KubectlError):
                _write_targets(kubectl, file)

    _write_targets(kubectl, file)
    thread = threading.Thread(target=look, name="discovery", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(STOP_S)


def _write_targets(kubectl: Kubectl, file: Path) -> None:
    pods = kubectl.json("get", "pods", "-l", f"{LABEL_COMPONENT}={ENGINE}")["items"]
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(targets(pods)))
    draft.replace(file)


@contextmanager
def running(kubectl: Kubectl) -> Iterator[str]:
    """The server, until the block ends; gives its address, which pods reach.

    Args:
        kubectl: In the namespace whose engines it scrapes.

    Raises:
        SmokeError: It did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-prometheus-") as name:
        folder = Path(name)
        file = folder / "targets.json"
        (folder / CONFIG).write_text(yaml.safe_dump(configuration(file)))
        with _discovery(kubectl, file), _server(folder) as url:
            yield url


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    address, log = f"{NODE_IP}:{_free_port()}", folder / "prometheus.log"
    command = [
        str(PROGRAM),
        f"--config.file={folder / CONFIG}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        _wait(process, f"http://{address}", log)
        yield f"http://{address}"
    finally:
        _end(process)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((NODE_IP, 0))
        return int(found.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    limit_s = time.monotonic() + START_S
    while time.monotonic() < limit_s and process.poll() is None:
        try:
            with direct.open(f"{url}/-/ready", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    last = (log.read_text(errors="replace").strip().splitlines() or ["no word"])[-1]
    raise SmokeError(f"prometheus is not ready: {last[:300]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
