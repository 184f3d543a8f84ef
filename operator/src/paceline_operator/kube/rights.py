"""Every right the operator uses, as data: the chart's roles are compared with this list.

`handlers` watch what is listed with `watch`; `kube` and `reconcile` use the other verbs.
Nothing is deleted: children go with their owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline_operator.api import v1alpha1


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource (`plural` or `plural/subresource`), and what they are for.

    `scope` is "watched" for every namespace the operator watches, "lease" for the one
    namespace the leader's Lease lies in.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    reason: str
    scope: Literal["watched", "lease"] = "watched"


RIGHTS: tuple[Right, ...] = (
    Right(v1alpha1.GROUP, "inferenceservices", ("get", "list", "watch"), "what to reconcile"),
    Right(v1alpha1.GROUP, "inferenceservices/status", ("patch",), "one status write a tick"),
    Right(
        "apps",
        "deployments",
        ("get", "list", "watch", "create", "patch"),
        "engine and proxy pods, by server-side apply",
    ),
    Right("apps", "deployments/scale", ("get", "patch"), "replicas, with resourceVersion"),
    Right(
        "",
        "services",
        ("get", "list", "watch", "create", "patch"),
        "addresses of the fleet, by server-side apply",
    ),
    Right(
        "",
        "configmaps",
        ("get", "list", "watch", "create", "patch"),
        "tunables and the proxy's configuration, by server-side apply",
    ),
    Right("", "secrets", ("get", "create", "patch"), "the admin token of each fleet"),
    Right("", "pods", ("get", "list", "watch", "patch"), "readiness, and pod-deletion-cost"),
    Right(
        "events.k8s.io",
        "events",
        ("create", "patch", "list"),
        "decisions told where users look, and why a pod gets no container",
    ),
    Right(
        "autoscaling",
        "horizontalpodautoscalers",
        ("list", "watch"),
        "a second writer of replicas is a conflict",
    ),
    Right("keda.sh", "scaledobjects", ("list", "watch"), "likewise, where KEDA is installed"),
    Right("coordination.k8s.io", "leases", ("get", "create", "update"), "leader election", "lease"),
)
