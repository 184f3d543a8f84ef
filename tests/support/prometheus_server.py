"""A real Prometheus server on loopback, which scrapes what a test serves."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.setup.prometheus import PROGRAM
from tests.support.apiserver import free_ports
from tests.support.leash import leashed

START_S = 60.0


@dataclass(frozen=True, slots=True)
class Scraped:
    """One pod as a job finds it.

    Attributes:
        address: Host and port.
        path: Of its metrics.
        labels: What the server adds to each series.
    """

    address: str
    path: str
    labels: dict[str, str]

    def config(self) -> dict[str, Any]:
        """Entry of `static_configs`."""
        return {
            "targets": [self.address],
            "labels": {"__metrics_path__": self.path, **self.labels},
        }


@contextmanager
def prometheus(
    directory: Path, jobs: dict[str, Sequence[Scraped]], interval: str = "1s"
) -> Iterator[str]:
    """Start a server; yields its address.

    Args:
        directory: For its data, configuration and log.
        jobs: Name -> what it scrapes.
        interval: Time between scrapes.
    """
    assert PROGRAM.exists(), f"no {PROGRAM}: run `python3 -m e2e.setup prometheus`"
    scrapes = [
        {"job_name": name, "static_configs": [pod.config() for pod in pods]}
        for name, pods in jobs.items()
    ]
    config = directory / "prometheus.yaml"
    times = {"scrape_interval": interval, "scrape_timeout": interval}
    config.write_text(yaml.safe_dump({"global": times, "scrape_configs": scrapes}))
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [
        str(PROGRAM), f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    log = directory / "prometheus.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            leashed(command), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    try:
        _wait_ready(url, process, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + START_S
    while not _is_ready(url):
        said = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"prometheus ended:\n{said}"
        assert time.monotonic() < limit, f"prometheus is not ready:\n{said}"
        time.sleep(0.05)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
