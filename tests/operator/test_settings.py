"""Settings: the chart's file, read as the chart writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline_operator.api.choice import Mode
from paceline_operator.domain.blast_radius import Limits
from paceline_operator.metrics import PrometheusServer
from paceline_operator.settings import DEFAULT_PATH, Settings, SettingsError, load

FULL = """\
engineImage: engine:1
proxyImage: proxy:1
imagePullPolicy: Never
enginePodOverlay: {spec: {nodeSelector: {a: b}}}
proxyPodOverlay: {}
hostPathModels: {enabled: true, prefixes: [/models]}
watchNamespaces: [team-a]
maxMode: Recommend
blastRadius: {servicesPerMinute: 5, replicasPerMinute: 7}
workers: 4
leaseNamespace: paceline-system
leaseName: paceline-leader
metrics:
  source: Prometheus
  prometheus:
    url: https://prometheus.monitoring:9090/here
    intervalSeconds: 30
    timeoutSeconds: 4
    bearerTokenFile: /token
    caFile: ""
    labels: {namespace: ns, pod: pod_name}
    matchers: {cluster: eu}
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    return file


def test_every_key_is_read(tmp_path: Path) -> None:
    settings = load(written(tmp_path, FULL))
    assert (settings.max_mode, settings.workers, settings.watch_namespaces) == (
        Mode.RECOMMEND, 4, ("team-a",),
    )  # fmt: skip
    assert settings.blast_radius.limits() == Limits(services=5, replicas=7)
    platform = settings.platform()
    assert (platform.engine_image, platform.image_pull_policy) == ("engine:1", "Never")
    assert platform.engine_pod_overlay == {"spec": {"nodeSelector": {"a": "b"}}}
    assert platform.host_path_prefixes == ("/models",)
    assert settings.metrics.server == PrometheusServer(
        url="https://prometheus.monitoring:9090/here",
        interval_s=30,
        timeout_s=4,
        token_file=Path("/token"),
        namespace_label="ns",
        pod_label="pod_name",
        matchers={"cluster": "eu"},
    )


def test_pods_are_read_themselves_unless_a_server_is_named(tmp_path: Path) -> None:
    assert Settings().metrics.server is None
    file = written(tmp_path, "metrics: {prometheus: {url: 'http://p:9090'}}")
    assert load(file).metrics.server is None


def test_authorities_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    text = "metrics: {source: Prometheus, prometheus: {url: 'https://p', caFile: /nowhere/ca}}"
    with pytest.raises(SettingsError, match=r"metrics\.prometheus\.caFile: /nowhere/ca"):
        _ = load(written(tmp_path, text)).metrics.server


def test_prefixes_count_only_where_host_paths_are_enabled(tmp_path: Path) -> None:
    file = written(tmp_path, "hostPathModels: {enabled: false, prefixes: [/models]}")
    assert load(file).platform().host_path_prefixes == ()


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert load(written(tmp_path, "")) == Settings()


def test_only_the_default_file_may_be_missing(tmp_path: Path) -> None:
    assert not DEFAULT_PATH.exists()
    assert load(DEFAULT_PATH) == Settings()
    with pytest.raises(SettingsError, match="set PACELINE_SETTINGS"):
        load(tmp_path / "absent.yaml")


def test_a_file_that_is_no_text_is_said(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    file.write_bytes(b"workers: \xff")
    with pytest.raises(SettingsError, match="is no text"):
        load(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workers: many", "workers"),
        ("maxMode: Sometimes", "maxMode"),
        ("blastRadius: {servicesPerMinute: 0}", r"blastRadius\.servicesPerMinute"),
        ("blastRadius: {replicasPerMinute: 0}", r"blastRadius\.replicasPerMinute"),
        ("recording: {directory: records}", r"recording\.directory"),
        ("recording: {maxMegabytes: 0}", r"recording\.maxMegabytes"),
        ("metrics: {prometheus: {bearerTokenFile: token}}", "bearerTokenFile"),
        ("metrics: {prometheus: {caFile: ca.pem}}", "caFile"),
        ("hostPathModels: {enabled: perhaps}", r"hostPathModels\.enabled"),
        ("metrics: {source: Prometheus}", r"metrics: .*prometheus\.url"),
        ("metrics: {prometheus: {url: prometheus}}", r"metrics\.prometheus\.url"),
        ("metrics: {prometheus: {url: 'https://u:secret@p'}}", r"metrics\.prometheus\.url"),
        ("metrics: {prometheus: {labels: {pod: a-b}}}", r"metrics\.prometheus\.labels\.pod"),
        ("metrics: {prometheus: {intervalSeconds: 31}}", "intervalSeconds"),
        ("- a", "settings"),
        ("a: [", "is not YAML"),
        ("workers: 2024-02-30", "is not YAML: day is out of range for month"),
        ("workers: 1\n---\nworkers: 2", "is not YAML: 2 documents; give it one"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        load(written(tmp_path, text))
    assert "\n" not in str(caught.value)
