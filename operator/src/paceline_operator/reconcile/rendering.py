"""The children's manifests for what was gathered and agreed."""

from __future__ import annotations

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.domain import proxy, rollout
from paceline_operator.domain.desired import Owner, RenderInput
from paceline_operator.domain.names import ENGINE, PROXY, derive, selector
from paceline_operator.domain.platform import Platform
from paceline_operator.domain.pods import UNSCHEDULABLE, template_hash
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile.knobs import for_start
from paceline_operator.reconcile.observed import Observed


def render_input(
    seen: Observed, spec: InferenceServiceSpec, platform: Platform, agreed: Agreed
) -> RenderInput:
    """All that the children depend on."""
    return RenderInput(
        owner=Owner(name=seen.name, namespace=seen.namespace, uid=seen.uid),
        spec=spec,
        platform=platform,
        token=seen.token,
        live=for_start(seen, agreed),
        pinned=seen.pinned,
        surge_blocked=_surge_blocked(seen),
        proxy_awaited=proxy_awaited(seen),
        proxy_replicas=proxy.replicas(seen.proxy),
        proxy_found=frozenset(
            kind for kind, name in seen.children if name == derive(seen.name, PROXY)
        ),
    )


def _surge_blocked(seen: Observed) -> bool:
    current = template_hash(seen.deployment)
    return seen.rolling_out and any(
        pod.problem is not None and pod.problem.reason == UNSCHEDULABLE
        for pod in seen.pods
        if pod.live and pod.template_hash == current
    )


def proxy_awaited(seen: Observed) -> bool:
    """Whether the Service leads to the engines and a proxy has yet to serve.

    Led to a proxy that does not serve, requests would fail though engines are ready.
    """
    live = seen.children.get(("Service", derive(seen.name))) or {}
    is_direct = (live.get("spec") or {}).get("selector") == selector(seen.name, ENGINE)
    return is_direct and not rollout.is_available(seen.proxy)
