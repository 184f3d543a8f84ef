"""The children's manifests for what was gathered and agreed."""

from __future__ import annotations

from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.domain import desired, rollout
from paceline_operator.domain.names import ANNOTATION_IMAGE, ANNOTATION_STARTUP
from paceline_operator.domain.platform import Platform
from paceline_operator.domain.pods import UNSCHEDULABLE, template_hash
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile.knobs import for_start
from paceline_operator.reconcile.observed import Observed


def manifests(
    seen: Observed, spec: InferenceServiceSpec, platform: Platform, agreed: Agreed
) -> list[dict[str, Any]]:
    """Children in the order they must exist in.

    Raises:
        SpecError: The spec cannot be served as written.
    """
    return desired.children(_render_input(seen, spec, platform, agreed))


def _render_input(
    seen: Observed, spec: InferenceServiceSpec, platform: Platform, agreed: Agreed
) -> desired.RenderInput:
    metadata = (seen.deployment or {}).get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    return desired.RenderInput(
        owner=desired.Owner(name=seen.name, namespace=seen.namespace, uid=seen.uid),
        spec=spec,
        platform=platform,
        token=seen.token,
        live=for_start(seen, agreed),
        strategy=rollout.resolve(
            spec,
            surge_blocked=_surge_blocked(seen),
            current=rollout.from_deployment(seen.deployment),
        ),
        pinned_image=annotations.get(ANNOTATION_IMAGE),
        pinned_hash=annotations.get(ANNOTATION_STARTUP),
    )


def _surge_blocked(seen: Observed) -> bool:
    current = template_hash(seen.deployment)
    return seen.rolling_out and any(
        pod.problem is not None and pod.problem.reason == UNSCHEDULABLE
        for pod in seen.pods
        if pod.live and pod.template_hash == current
    )
