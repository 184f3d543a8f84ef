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
from math import ceil
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from e2e.cluster.settings import NODE_IP
from e2e.kubectl import Kubectl, KubectlError
from e2e.setup.prometheus import PROGRAM
from e2e.smoke.site import SmokeError
from paceline_operator.domain.contract import HEALTH_PORT, HealthPath
from paceline_operator.domain.names import ENGINE, LABEL_COMPONENT
from paceline_operator.metrics.prometheus import PATH

INTERVAL_S = 5
LOOK_S = 2
CONFIG = "prometheus.yaml"
START_S = 60.0
STOP_S = 20.0
CALL_S = 5.0
COUNT = "prometheus_http_requests_total"
LONGEST_S = 15.0
"""Between two queries at most: a busy operator stretches its interval so far."""


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


def queries(url: str) -> int:
    """How many queries the server has answered with 200 since it began, by its own count.

    Raises:
        SmokeError: It does not say.
    """
    try:
        with _direct().open(f"{url}/metrics", timeout=CALL_S) as reply:
            text = reply.read().decode()
    except (urllib.error.URLError, OSError) as error:
        raise SmokeError(f"prometheus does not say what it was asked: {error}") from error
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == COUNT and sample.labels == {"code": "200", "handler": PATH}
    ]
    return round(sum(sample.value for sample in samples))


def misread(asked: int, at_engines: int, length_s: float) -> str | None:
    """Why measurements cannot have come from the server alone, in words; None if they did.

    Args:
        asked: Queries that the server answered during the load.
        at_engines: Connections that operators made to engines' metrics meanwhile.
        length_s: Of the load.
    """
    least = ceil(length_s / LONGEST_S)
    if asked < least:
        return f"the server answered {asked} queries in {length_s:.0f} s, {least} at least expected"
    if at_engines:
        return f"operators asked engines themselves {at_engines} times"
    return None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((NODE_IP, 0))
        return int(found.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    direct, limit_s = _direct(), time.monotonic() + START_S
    while time.monotonic() < limit_s and process.poll() is None:
        try:
            with direct.open(f"{url}/-/ready", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    last = (log.read_text(errors="replace").strip().splitlines() or ["no word"])[-1]
    raise SmokeError(f"prometheus is not ready: {last[:300]}")


def _direct() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
