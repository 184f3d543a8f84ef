"""What must hold of a fleet while nothing is broken, as a user of kubectl would see it."""

from __future__ import annotations

import time
from pathlib import Path

from e2e import interruption
from e2e.smoke.site import NAME, Site, SmokeError, until

FLEET = Path(__file__).with_name("fleet.yaml")
OPERATOR = "paceline"
QUIET_S = 12.0
CHILDREN = "deployment,service,configmap,secret"


def apply_and_wait(site: Site) -> str:
    """One apply gives a Ready fleet of two."""
    site.kubectl.apply_file(FLEET)
    site.kubectl.run("scale", "inferenceservice", NAME, "--replicas=2")
    took_s = until("two ready replicas", lambda: _ready(site) == 2, 60)
    site.kubectl.wait("inferenceservice", NAME, "--for=condition=Ready", timeout_s=30)
    return f"two replicas Ready after {took_s:.1f} s"


def apply_again(site: Site) -> str:
    """A second apply of the same manifest leads to no write at all."""
    time.sleep(QUIET_S)
    before = _versions(site)
    site.kubectl.apply_file(FLEET)
    time.sleep(QUIET_S)
    after = _versions(site)
    changed = sorted(
        key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
    )
    if changed:
        raise SmokeError(f"a second apply led to writes of {', '.join(changed)}")
    return f"{len(after)} objects unchanged"


def scale_off(site: Site) -> str:
    """In mode Off `kubectl scale` sets the replicas."""
    site.kubectl.run("scale", "inferenceservice", NAME, "--replicas=3")
    up_s = until("three replicas", lambda: _ready(site) == 3, 60)
    site.kubectl.run("scale", "inferenceservice", NAME, "--replicas=2")
    down_s = until("two replicas again", lambda: len(site.engine_pods()) == 2, 60)
    return f"2 to 3 in {up_s:.1f} s, back in {down_s:.1f} s"


def scale_auto(site: Site) -> str:
    """In mode Auto it sets a floor, and the condition says so."""
    scaling = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 4}
    site.kubectl.patch("inferenceservice", NAME, {"spec": {"scaling": scaling}})
    site.kubectl.run("scale", "inferenceservice", NAME, "--replicas=3")
    up_s = until("three replicas", lambda: _ready(site) == 3, 60)
    until("ScalingLimited=ManualFloor", lambda: _manual_floor(site), 30)
    message = site.condition("ScalingLimited").get("message", "")
    if not message:
        raise SmokeError("ScalingLimited=ManualFloor does not say when it expires")
    site.kubectl.patch("inferenceservice", NAME, {"spec": {"scaling": {"mode": "Off"}}})
    return f"floor of 3 after {up_s:.1f} s: {message}"


def delete_without_operator(site: Site) -> str:
    """Deletion is immediate with the operator away; it comes back whatever the outcome."""
    replicas = site.system.json("get", "deployment", OPERATOR)["spec"]["replicas"]
    try:
        site.system.run("scale", "deployment", OPERATOR, "--replicas=0")
        until("operator gone", lambda: not site.system.json("get", "pods")["items"], 60)
        started = time.monotonic()
        site.kubectl.run("delete", "inferenceservice", NAME, "--timeout=10s")
        took_s = time.monotonic() - started
        until("children gone", lambda: not _children(site), 60)
    finally:
        with interruption.held_off():
            site.system.run("scale", "deployment", OPERATOR, f"--replicas={replicas}")
    return f"deleted in {took_s:.1f} s"


def _ready(site: Site) -> int:
    return int(site.service().get("status", {}).get("readyReplicas", 0))


def _manual_floor(site: Site) -> bool:
    condition = site.condition("ScalingLimited")
    return condition.get("status") == "True" and condition.get("reason") == "ManualFloor"


def _children(site: Site) -> list[str]:
    listed = site.kubectl.json("get", CHILDREN)["items"]
    return [
        f"{item['kind']}/{item['metadata']['name']}"
        for item in listed
        if any(o["kind"] == "InferenceService" for o in item["metadata"].get("ownerReferences", []))
    ]


def _versions(site: Site) -> dict[str, str]:
    listed = site.kubectl.json("get", f"{CHILDREN},inferenceservice")["items"]
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for item in listed
    }
