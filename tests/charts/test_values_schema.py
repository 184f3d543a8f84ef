"""Values that the chart refuses, each with the value it names."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chart import try_template

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown value": ({"imgae": "x"}, "imgae"),
    "an unknown operator value": ({"operator": {"image": "x"}}, "operator"),
    "an unknown engine value": ({"engine": {"overlay": {}}}, "engine"),
    "an image with a space": ({"image": "a b"}, "image"),
    "an empty engine image": ({"engine": {"image": ""}}, "engine/image"),
    "an unknown pull policy": ({"imagePullPolicy": "Sometimes"}, "imagePullPolicy"),
    "an unknown mode": ({"maxMode": "auto"}, "maxMode"),
    "no service a minute": (
        {"blastRadius": {"servicesPerMinute": 0}},
        "blastRadius/servicesPerMinute",
    ),
    "no limit of services": (
        {"blastRadius": {"servicesPerMinute": None}},
        "servicesPerMinute",
    ),
    "no limit of replicas": ({"blastRadius": {"replicasPerMinute": None}}, "replicasPerMinute"),
    "no limits": ({"blastRadius": None}, "blastRadius"),
    "no directory of records": ({"recording": {"directory": None}}, "directory"),
    "a relative directory of records": ({"recording": {"directory": "a"}}, "recording/directory"),
    "no size of records": ({"recording": {"maxMegabytes": None}}, "maxMegabytes"),
    "no records": ({"recording": None}, "recording"),
    "no word on a monitor": ({"serviceMonitor": {"enabled": None}}, "enabled"),
    "no interval of a monitor": ({"serviceMonitor": {"interval": None}}, "interval"),
    "no monitor": ({"serviceMonitor": None}, "serviceMonitor"),
    "no replica": ({"operator": {"replicas": 0}}, "operator/replicas"),
    "three replicas": ({"operator": {"replicas": 3}}, "operator/replicas"),
    "no worker": ({"operator": {"workers": 0}}, "operator/workers"),
    "a command that is one text": ({"operator": {"command": "python"}}, "operator/command"),
    "a volume without a name": ({"operator": {"extraVolumes": [{}]}}, "operator/extraVolumes"),
    "a relative mount": (
        {"operator": {"extraVolumeMounts": [{"name": "a", "mountPath": "a"}]}},
        "operator/extraVolumeMounts",
    ),
    "a variable without a name": ({"operator": {"env": [{"value": "x"}]}}, "operator/env"),
    "an overlay that is not a pod template": (
        {"engine": {"podOverlay": {"volumes": []}}},
        "engine/podOverlay",
    ),
    "a proxy overlay that is a list": ({"proxy": {"podOverlay": []}}, "proxy/podOverlay"),
    "a namespace in capitals": ({"watchNamespaces": ["Prod"]}, "watchNamespaces"),
    "a namespace twice": ({"watchNamespaces": ["a", "a"]}, "watchNamespaces"),
    "a relative prefix": (
        {"model": {"hostPath": {"prefixes": ["models"]}}},
        "model/hostPath/prefixes",
    ),
    "a prefix that climbs": (
        {"model": {"hostPath": {"prefixes": ["/models/../etc"]}}},
        "model/hostPath/prefixes",
    ),
    "the whole node": ({"model": {"hostPath": {"prefixes": ["/"]}}}, "model/hostPath/prefixes"),
    "host paths without a prefix": (
        {"model": {"hostPath": {"enabled": True, "prefixes": []}}},
        "model/hostPath/prefixes",
    ),
    "an unknown source of metrics": ({"metrics": {"source": "prometheus"}}, "metrics/source"),
    "Prometheus without its address": (
        {"metrics": {"source": "Prometheus"}},
        "metrics/prometheus/url",
    ),
    "an address without a scheme": (
        {"metrics": {"prometheus": {"url": "prometheus:9090"}}},
        "metrics/prometheus/url",
    ),
    "a label that is none": (
        {"metrics": {"prometheus": {"matchers": {"a-b": "c"}}}},
        "invalid propertyName 'a-b'",  # Helm names the wrong place of a property's name
    ),
    "an interval that leaves nothing fresh": (
        {"metrics": {"prometheus": {"intervalSeconds": 31}}},
        "metrics/prometheus/intervalSeconds",
    ),
    "host paths by a text": ({"model": {"hostPath": {"enabled": "yes"}}}, "hostPath/enabled"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    values, where = REFUSED[name]
    done = try_template(values)
    assert done.returncode != 0
    assert where.replace("/", ".") in done.stderr.replace("/", "."), done.stderr


ACCEPTED: dict[str, dict[str, Any]] = {
    "values of a parent chart": {"global": {"anything": 1}},
    "host paths off without a prefix": {"model": {"hostPath": {"prefixes": []}}},
    "a standby": {"operator": {"replicas": 2}},
    "a Prometheus server": {
        "metrics": {"source": "Prometheus", "prometheus": {"url": "http://prometheus:9090"}}
    },
    "an overlay": {"engine": {"podOverlay": {"metadata": {}, "spec": {"volumes": []}}}},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts(name: str) -> None:
    done = try_template(ACCEPTED[name])
    assert done.returncode == 0, done.stderr
