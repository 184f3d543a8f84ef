"""From the spec to the children: Deployment, Services, Secret, ConfigMaps, proxy.

Rendering is stable: the same input gives the same bytes in every version of the operator, so
an upgrade restarts nothing. Live values are outside the pod template. The engines' Deployment
never carries `replicas`: those are written through `/scale` alone.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paceline_operator.api.choice import RolloutStrategy, RoutingMode
from paceline_operator.api.v1alpha1 import API_VERSION, KIND, InferenceServiceSpec
from paceline_operator.domain import arguments, overlay, proxy, rollout, tunables
from paceline_operator.domain.contract import API_PORT, HEALTH_PORT, TUNABLES_FILE
from paceline_operator.domain.difference import digest
from paceline_operator.domain.names import (
    ENGINE,
    PROXY,
    derive,
    labels,
    selector,
)
from paceline_operator.domain.pinned import Pinned, Start
from paceline_operator.domain.platform import Platform
from paceline_operator.domain.pod import engine_template


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Identity of the object the children belong to."""

    name: str
    namespace: str
    uid: str

    def reference(self) -> dict[str, Any]:
        """Owner reference that frees the children with the owner."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderInput:
    """All that rendering depends on.

    Attributes:
        owner: The object.
        spec: Its parsed spec.
        platform: The installation's part.
        token: Admin token of the fleet, made once.
        live: Last agreed live values.
        pinned: What the fleet was started with. Image and default arguments are kept for as
            long as the spec's start-up part is unchanged, so that new ones restart nothing.
        surge_blocked: Whether the scheduler has no room for one more pod in a rollout.
        proxy_awaited: Whether the Service leads to the engines until the proxy serves.
        proxy_replicas: Replicas to declare for the proxy, None where someone else's stand.
        proxy_found: Kinds of what there is of a proxy; where the spec does without one, that is
            kept in rest, and nothing is made anew.
    """

    owner: Owner
    spec: InferenceServiceSpec
    platform: Platform
    token: str
    live: tunables.Agreed
    pinned: Pinned = field(default_factory=Pinned)
    surge_blocked: bool = False
    proxy_awaited: bool = False
    proxy_replicas: int | None = proxy.REPLICAS
    proxy_found: frozenset[str] = frozenset()


def children(given: RenderInput) -> list[dict[str, Any]]:
    """Manifests in the order they must exist in.

    Raises:
        SpecError: The spec cannot be served as written.
    """
    overlay.check_depth(given.spec.template or {})
    arguments.check(given.spec)
    common = [_secret(given), _tunables(given), _headless(given), _service(given)]
    return [*common, _engines(given), *_proxy(given)]


def pinned(given: RenderInput) -> Pinned:
    """What to remember of these choices."""
    start = engine_start(given)
    return Pinned(
        image=start.image,
        defaults=start.defaults,
        startup=startup_hash(given.spec),
        strategy=rollout.kept(
            given.spec, surge_blocked=given.surge_blocked, current=given.pinned.strategy
        ),
    )


def startup_hash(spec: InferenceServiceSpec) -> str:
    """Hash of what the user wrote about how engines start."""
    parts = spec.model_dump(
        mode="json", include={"model", "engine", "resources", "template"}, exclude_unset=True
    )
    parts.get("engine", {}).get("batch_tokens", {}).pop("initial", None)
    return digest(parts)


def engine_start(given: RenderInput) -> Start:
    """Of the engine pods: the pinned start, or one as the installation has them now."""
    known = given.pinned.start_for(startup_hash(given.spec))
    start = known or Start(image=given.platform.engine_image, defaults=arguments.LATEST)
    image = given.spec.engine.image
    return start if image is None else replace(start, image=image)


def _strategy(given: RenderInput) -> RolloutStrategy:
    return rollout.resolve(
        given.spec, surge_blocked=given.surge_blocked, current=given.pinned.strategy
    )


def _object(
    given: RenderInput, api_version: str, kind: str, name: str, component: str
) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": given.owner.namespace,
            "labels": labels(given.owner.name, component),
            "ownerReferences": [given.owner.reference()],
        },
    }


def _secret(given: RenderInput) -> dict[str, Any]:
    encoded = base64.b64encode(given.token.encode()).decode()
    manifest = _object(given, "v1", "Secret", derive(given.owner.name, "admin"), ENGINE)
    return {**manifest, "type": "Opaque", "data": {arguments.TOKEN_FILE: encoded}}


def _tunables(given: RenderInput) -> dict[str, Any]:
    manifest = _object(given, "v1", "ConfigMap", derive(given.owner.name, "tunables"), ENGINE)
    return {**manifest, "data": {TUNABLES_FILE: tunables.text(given.live)}}


def _headless(given: RenderInput) -> dict[str, Any]:
    manifest = _object(given, "v1", "Service", derive(given.owner.name, "pods"), ENGINE)
    ports = [_port("http", API_PORT), _port("health", HEALTH_PORT)]
    spec = {"clusterIP": "None", "selector": selector(given.owner.name, ENGINE), "ports": ports}
    return {**manifest, "spec": spec}


def _service(given: RenderInput) -> dict[str, Any]:
    is_proxied = given.spec.routing.mode is RoutingMode.PROXY and not given.proxy_awaited
    target = PROXY if is_proxied else ENGINE
    manifest = _object(given, "v1", "Service", derive(given.owner.name), target)
    spec = {
        "type": "ClusterIP",
        "selector": selector(given.owner.name, target),
        "ports": [_port("http", API_PORT)],
    }
    return {**manifest, "spec": spec}


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}


def _engines(given: RenderInput) -> dict[str, Any]:
    name, start = given.owner.name, engine_start(given)
    manifest = _object(given, "apps/v1", "Deployment", derive(name), ENGINE)
    return {
        **manifest,
        "spec": {
            "selector": {"matchLabels": selector(name, ENGINE)},
            "strategy": rollout.deployment_strategy(_strategy(given)),
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": 600,
            "template": engine_template(name, given.spec, given.platform, start),
        },
    }


def _proxy(given: RenderInput) -> list[dict[str, Any]]:
    """What the proxy consists of; at rest, only as far as it is there."""
    domain = given.platform.cluster_domain
    text = proxy.config(given.owner.name, given.owner.namespace, given.spec, domain)
    config = _object(given, "v1", "ConfigMap", derive(given.owner.name, PROXY), PROXY)
    made = [{**config, "data": {proxy.CONFIG_FILE: text}}, _proxy_deployment(given, digest(text))]
    if given.spec.routing.mode is RoutingMode.PROXY:
        return made
    return [each for each in made if each["kind"] in given.proxy_found]


def _proxy_deployment(given: RenderInput, config_digest: str) -> dict[str, Any]:
    name = derive(given.owner.name, PROXY)
    is_wanted = given.spec.routing.mode is RoutingMode.PROXY
    replicas = given.proxy_replicas if is_wanted else proxy.AT_REST
    spec: Mapping[str, Any] = {
        **({} if replicas is None else {"replicas": replicas}),
        "selector": {"matchLabels": selector(given.owner.name, PROXY)},
        "strategy": rollout.deployment_strategy(RolloutStrategy.SURGE),
        "revisionHistoryLimit": 1,
        "template": proxy.template(given.owner.name, given.spec, given.platform, config_digest),
    }
    return {**_object(given, "apps/v1", "Deployment", name, PROXY), "spec": spec}
