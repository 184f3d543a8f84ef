"""Others that write the replicas of a fleet's Deployment: `kubectl scale`, then an autoscaler."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from e2e.smoke.site import Site, SmokeError, until
from e2e.trial.faults import is_followed, moved

FLEET = Path(__file__).with_name("foreign.yaml")
NAME = "foreign"
STANDS_S = 15.0
"""Over this time a foreign value must not be written over."""


def check(site: Site) -> list[str]:
    """Runs all of it on a fleet of its own; returns what held, in words.

    Raises:
        SmokeError: Something did not hold.
    """
    fleet = replace(site, name=NAME)
    found = []
    for one in (_one_write, _two_writes, _autoscaler):
        fleet.kubectl.apply_file(FLEET)
        try:
            until("a ready engine", lambda: _ready(fleet) == 1, 60)
            until("first live values in force", lambda: is_followed(fleet), 60)
            found.append(one(fleet))
        finally:
            _remove(fleet)
    return found


def _one_write(site: Site) -> str:
    """One write is a disturbance: it stands for now, and is no conflict."""
    site.kubectl.run("scale", "deployment", NAME, "--replicas=2")
    until("two ready engines", lambda: _ready(site) == 2, 60)
    _stands(site, 2)
    if site.condition("Conflict").get("status") == "True":
        raise SmokeError("one kubectl scale was taken for a conflict")
    return "one kubectl scale: adopted, no conflict"


def _two_writes(site: Site) -> str:
    """Two by the same: replicas are left to it by name, the other knob goes on."""
    site.kubectl.run("scale", "deployment", NAME, "--replicas=2")
    until("the first write noted", lambda: _desired(site) == 2, 30)
    site.kubectl.run("scale", "deployment", NAME, "--replicas=3")
    took_s = until("Conflict names kubectl", lambda: _conflict_names(site, "kubectl"), 30)
    until("three ready engines", lambda: _ready(site) == 3, 60)
    _stands(site, 3)
    _other_knob_goes_on(site)
    return f"two: left to kubectl after {took_s:.0f} s, live values go on"


def _autoscaler(site: Site) -> str:
    """An autoscaler on the Deployment: the same, at once."""
    site.kubectl.apply(autoscaler(NAME))
    took_s = until(
        "Conflict names the autoscaler",
        lambda: _conflict_names(site, "HorizontalPodAutoscaler"),
        30,
    )
    _other_knob_goes_on(site)
    return f"an HPA: replicas are left to it after {took_s:.0f} s, live values go on"


def autoscaler(name: str) -> dict[str, Any]:
    """An HPA on the Deployment of that name."""
    metric = {"type": "Utilization", "averageUtilization": 80}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": metric}}],
        },
    }


def _stands(site: Site, replicas: int) -> None:
    end_s = time.monotonic() + STANDS_S
    while time.monotonic() < end_s:
        now = int(site.kubectl.json("get", "deployment", NAME)["spec"]["replicas"])
        if now != replicas:
            raise SmokeError(
                f"kubectl wrote {replicas} replicas, and {now} were put in their place"
            )
        time.sleep(1.0)


def _other_knob_goes_on(site: Site) -> None:
    before = int(site.service()["status"]["budget"]["revision"])
    slos = moved(site.service()["spec"]["slos"])
    site.kubectl.patch("inferenceservice", NAME, {"spec": {"slos": slos}})
    until(
        "live values move on beside a foreign writer",
        lambda: int(site.service()["status"]["budget"]["revision"]) > before and is_followed(site),
        60,
    )


def _conflict_names(site: Site, who: str) -> bool:
    found = site.condition("Conflict")
    return found.get("status") == "True" and who in found.get("message", "")


def _ready(site: Site) -> int:
    return int(site.service().get("status", {}).get("readyReplicas", 0))


def _desired(site: Site) -> int:
    return int(site.service().get("status", {}).get("desiredReplicas") or 0)


def _remove(site: Site) -> None:
    site.kubectl.run(
        *("delete", "inferenceservice,hpa", NAME, "--ignore-not-found", "--cascade=foreground"),
        "--timeout=60s",
    )
