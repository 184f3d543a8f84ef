"""Helm values with which the chart runs on the built cluster.

The chart is installed as any user would; that the programs come from the host instead of an
image is said in its open values alone.
"""

from pathlib import Path
from typing import Any

from e2e.cluster.errors import ClusterError
from e2e.cluster.host_mounts import HostEnvironment, environment, system_environment, unreadable
from e2e.cluster.images import HOST_IMAGE
from e2e.cluster.settings import Settings

MODELS = Path("/var/lib/paceline/models")
"""Directory of the node whose models may be served."""


def chart_values(settings: Settings) -> dict[str, Any]:
    """Values for `helm install -f`.

    Raises:
        ClusterError: An environment is missing, or other accounts may not read it.
    """
    (settings.cache / "kernels").mkdir(parents=True, exist_ok=True)
    engine = environment("engine", settings.cache)
    operator = environment("operator", settings.cache)
    proxy = system_environment()
    for host in (engine, operator, proxy):
        _check(host)
    return {
        "image": HOST_IMAGE,
        "imagePullPolicy": "Never",
        "operator": {
            "env": operator.env,
            "extraVolumes": operator.volumes,
            "extraVolumeMounts": operator.mounts,
        },
        "engine": {"image": HOST_IMAGE, "podOverlay": pod_overlay("engine", engine)},
        "proxy": {"image": HOST_IMAGE, "podOverlay": pod_overlay("proxy", proxy)},
        "model": {"hostPath": {"enabled": True, "prefixes": [str(MODELS)]}},
    }


def pod_overlay(container: str, host: HostEnvironment) -> dict[str, Any]:
    """Pod template overlay that mounts host directories into one container."""
    entry: dict[str, Any] = {"name": container, "volumeMounts": host.mounts}
    if host.variables:
        entry["env"] = host.env
    return {"spec": {"containers": [entry], "volumes": host.volumes}}


def _check(host: HostEnvironment) -> None:
    for directory in host.directories:
        if not directory.path.is_dir():
            raise ClusterError(f"{directory.path} does not exist", "run `make demo` or `make test`")
    if closed := unreadable(host.directories):
        raise ClusterError(
            f"{closed[0]} is closed to other accounts, and pods do not run as root",
            f"`chmod o+rx {closed[0]}`",
        )
