"""What the installation, not the object, decides about children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Installation-wide input of rendering.

    Attributes:
        engine_image: Image of engine pods whose spec names none.
        proxy_image: HAProxy image.
        image_pull_policy: For both.
        engine_pod_overlay: Pod template overlay laid on before `spec.template`.
        proxy_pod_overlay: The same for the proxy's pods.
        cluster_domain: DNS domain of the cluster's Services.
        host_path_prefixes: Directories `file://` models may lie under; empty forbids them.
    """

    engine_image: str
    proxy_image: str
    image_pull_policy: str = "IfNotPresent"
    engine_pod_overlay: Mapping[str, Any] = field(default_factory=dict)
    proxy_pod_overlay: Mapping[str, Any] = field(default_factory=dict)
    cluster_domain: str = "cluster.local"
    host_path_prefixes: tuple[str, ...] = ()
