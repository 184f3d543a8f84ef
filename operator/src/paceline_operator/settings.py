"""Installation settings, read once at start from the file the chart mounts.

Keys are those of `charts/paceline/README.md`. `main` turns them into the pure `Platform`
that rendering needs; nothing below `main` and `handlers` imports this module.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from paceline_operator.api.v1alpha1 import Mode, Model
from paceline_operator.domain.blast_radius import Limits
from paceline_operator.domain.platform import Platform
from paceline_operator.metrics import PrometheusServer
from paceline_operator.yaml_text import YamlError, document

DEFAULT_PATH = Path("/etc/paceline/settings.yaml")


class SettingsError(Exception):
    """The settings file cannot be used; the text is one line for people."""


class HostPathModels(Model):
    """Whether and where `file://` models may be mounted from nodes."""

    enabled: bool = False
    prefixes: tuple[str, ...] = ()


File = Annotated[str, Field(pattern=r"^(/.*)?$")]
Domain = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Label = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]


class PrometheusLabels(Model):
    """Labels that tell whose series one is."""

    namespace: Label = "namespace"
    pod: Label = "pod"


class PrometheusSettings(Model):
    """The server that scrapes engines."""

    # No "@": a name and a password in it would be logged.
    url: Annotated[str, Field(pattern=r"^(https?://[^\s@]+)?$")] = ""
    # Read more rarely, replicas would not be seen to be spare, nor a trial to hold.
    interval_seconds: Annotated[float, Field(ge=1, le=30)] = 15.0
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    bearer_token_file: File = ""
    ca_file: File = ""
    labels: PrometheusLabels = PrometheusLabels()
    matchers: dict[Label, str] = Field(default_factory=dict)

    def server(self) -> PrometheusServer:
        """The same for the source that asks it.

        Raises:
            SettingsError: The file with its authorities cannot be read.
        """
        try:
            trust = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None
        except OSError as error:
            raise SettingsError(
                f"metrics.prometheus.caFile: {self.ca_file}: {_one_line(error)}: give a PEM file"
            ) from error
        return PrometheusServer(
            url=self.url,
            interval_s=self.interval_seconds,
            timeout_s=self.timeout_seconds,
            token_file=Path(self.bearer_token_file) if self.bearer_token_file else None,
            trust=trust,
            namespace_label=self.labels.namespace,
            pod_label=self.labels.pod,
            matchers=self.matchers,
        )


class MetricsSettings(Model):
    """Where engines' metrics come from."""

    source: Literal["Scrape", "Prometheus"] = "Scrape"
    prometheus: PrometheusSettings = PrometheusSettings()

    @model_validator(mode="after")
    def _has_a_server(self) -> Self:
        if self.source == "Prometheus" and not self.prometheus.url:
            raise ValueError("source Prometheus needs prometheus.url, its address")
        return self

    @property
    def server(self) -> PrometheusServer | None:
        """The Prometheus server to ask, None where pods are read themselves."""
        return self.prometheus.server() if self.source == "Prometheus" else None


class BlastRadius(Model):
    """Most that the autopilot may change over all objects in any minute."""

    services_per_minute: Annotated[int, Field(ge=1)] = Limits().services
    replicas_per_minute: Annotated[int, Field(ge=1)] = Limits().replicas

    def limits(self) -> Limits:
        """In the form that decisions read."""
        return Limits(services=self.services_per_minute, replicas=self.replicas_per_minute)


class Recording(Model):
    """Whether and where decisions are recorded, to be made again."""

    directory: Annotated[str, Field(pattern=r"^((/[^/]+)+)?$")] = ""
    max_megabytes: Annotated[int, Field(ge=1, le=65536)] = 64


class Settings(Model):
    """The settings file."""

    engine_image: str = "paceline-engine:0.1.0"
    proxy_image: str = "haproxy:2.6.17"
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    engine_pod_overlay: dict[str, Any] = Field(default_factory=dict)
    proxy_pod_overlay: dict[str, Any] = Field(default_factory=dict)
    cluster_domain: Domain = "cluster.local"
    host_path_models: HostPathModels = HostPathModels()
    watch_namespaces: tuple[str, ...] = ()
    max_mode: Mode = Mode.AUTO
    blast_radius: BlastRadius = BlastRadius()
    workers: Annotated[int, Field(ge=1, le=256)] = 8
    recording: Recording = Recording()
    lease_namespace: str | None = None
    lease_name: str = "paceline-leader"
    metrics: MetricsSettings = MetricsSettings()

    def platform(self) -> Platform:
        """The part of the settings that decides what children look like."""
        hosts = self.host_path_models
        return Platform(
            engine_image=self.engine_image,
            proxy_image=self.proxy_image,
            image_pull_policy=self.image_pull_policy,
            engine_pod_overlay=self.engine_pod_overlay,
            proxy_pod_overlay=self.proxy_pod_overlay,
            cluster_domain=self.cluster_domain,
            host_path_prefixes=hosts.prefixes if hosts.enabled else (),
        )


class Environment(BaseSettings):
    """What the process takes from its environment."""

    model_config = SettingsConfigDict(env_prefix="", extra="ignore")

    paceline_settings: Path = DEFAULT_PATH
    paceline_http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    paceline_lease_seconds: Annotated[float, Field(ge=1, le=600)] = 15.0
    pod_name: str = ""
    pod_namespace: str = "default"


def load(path: Path) -> Settings:
    """Read the settings file; a missing default file means all defaults.

    Raises:
        SettingsError: The file is missing, not YAML, or holds a value that is not allowed.
    """
    if not path.exists():
        if path == DEFAULT_PATH:
            return Settings()
        raise SettingsError(f"settings file {path} does not exist: set PACELINE_SETTINGS to one")
    try:
        return Settings.model_validate(document(path.read_text(encoding="utf-8")) or {})
    except UnicodeDecodeError as error:
        raise SettingsError(f"settings file {path} is no text ({error.reason})") from error
    except YamlError as error:
        raise SettingsError(f"settings file {path} is not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"settings file {path}: {where}: {first['msg']}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
