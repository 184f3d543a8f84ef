"""Which refusals the death of an engine explains, and how Prometheus finds engines."""

from __future__ import annotations

from pathlib import Path

from e2e.smoke.losses import Fault
from e2e.trial.course import RECOVERY_S, unexplained
from e2e.trial.prometheus import configuration, values
from paceline_operator.settings import MetricsSettings
from tests.e2e.trial.making import record


def test_refusals_are_explained_by_load_before_and_a_missing_engine_after() -> None:
    refused = [record(at_s, None) for at_s in (10.0, 99.0, 101.0, 150.0, 165.0, 170.0 + RECOVERY_S)]
    found = unexplained(refused, 100.0, [Fault("engine", 149.0, 160.0)])
    assert [each.sent_s for each in found] == [101.0, 170.0 + RECOVERY_S]


def test_a_healthy_fleet_refuses_nobody_once_the_load_is_steady() -> None:
    assert len(unexplained([record(101.0, None)], 100.0, [])) == 1


def test_prometheus_keeps_engines_alone_and_tells_whose_series_one_is() -> None:
    (job,) = configuration(Path("/k"), "here")["scrape_configs"]
    (pods,) = job["kubernetes_sd_configs"]
    assert (pods["kubeconfig_file"], pods["namespaces"]) == ("/k", {"names": ["here"]})
    component, port, namespace, pod = job["relabel_configs"]
    assert component["source_labels"] == ["__meta_kubernetes_pod_label_paceline_dev_component"]
    assert (component["regex"], port["regex"]) == ("engine", "8001")
    labels = MetricsSettings.model_validate(values("http://x:1")["metrics"]).prometheus.labels
    assert (namespace["target_label"], pod["target_label"]) == (labels.namespace, labels.pod)
