"""A Prometheus server on the node that scrapes engine pods as it would in any cluster."""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.settings import NODE_IP, Settings
from e2e.setup.prometheus import PROGRAM
from e2e.smoke.site import SmokeError
from paceline_operator.domain.contract import HEALTH_PORT, HealthPath
from paceline_operator.domain.names import ENGINE, LABEL_COMPONENT

INTERVAL_S = 5
START_S = 60.0
STOP_S = 20.0


def configuration(kubeconfig: Path, namespace: str) -> dict[str, Any]:
    """What it scrapes: pods with the label of engines, found through the API server.

    Args:
        kubeconfig: How it reads pods.
        namespace: Whose pods.
    """
    label = "__meta_kubernetes_pod_label_" + re.sub(r"\W", "_", LABEL_COMPONENT)
    rules = [
        {"source_labels": [label], "regex": ENGINE, "action": "keep"},
        # A pod is found once for each of its ports.
        {
            "source_labels": ["__meta_kubernetes_pod_container_port_number"],
            "regex": str(HEALTH_PORT),
            "action": "keep",
        },
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
    ]
    pods = {
        "role": "pod",
        "kubeconfig_file": str(kubeconfig),
        "namespaces": {"names": [namespace]},
    }
    job = {
        "job_name": "engines",
        "metrics_path": HealthPath.METRICS.value,
        "kubernetes_sd_configs": [pods],
        "relabel_configs": rules,
    }
    every = f"{INTERVAL_S}s"
    return {"global": {"scrape_interval": every, "scrape_timeout": every}, "scrape_configs": [job]}


def values(url: str) -> dict[str, Any]:
    """Chart values with which the operator asks that server."""
    return {
        "metrics": {
            "source": "Prometheus",
            "prometheus": {"url": url, "intervalSeconds": INTERVAL_S},
        }
    }


@contextmanager
def running(settings: Settings, namespace: str) -> Iterator[str]:
    """The server, until the block ends; gives its address, which pods reach.

    Raises:
        SmokeError: It did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-prometheus-") as folder:
        config = Path(folder) / "prometheus.yaml"
        config.write_text(yaml.safe_dump(configuration(settings.kubeconfig, namespace)))
        port = _free_port()
        log = Path(folder) / "prometheus.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [
                    str(PROGRAM),
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address={NODE_IP}:{port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        try:
            url = f"http://{NODE_IP}:{port}"
            _wait(process, url, log)
            yield url
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
