"""Names and labels of children, derived from the owner's name and never too long."""

from __future__ import annotations

import hashlib

LABEL_SERVICE = "paceline.dev/service"
LABEL_COMPONENT = "paceline.dev/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
OPERATOR = "paceline"
MAX_NAME = 63

ANNOTATION_APPLIED = "paceline.dev/applied"
ANNOTATION_TEMPLATE = "paceline.dev/template-hash"
ANNOTATION_DRAINING = "paceline.dev/draining-since"
ANNOTATION_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

ENGINE = "engine"
PROXY = "proxy"


def derive(owner: str, suffix: str = "") -> str:
    """Child name: owner plus suffix, cut and marked with a hash of the owner when too long."""
    tail = f"-{suffix}" if suffix else ""
    if len(owner) + len(tail) <= MAX_NAME:
        return owner + tail
    digest = hashlib.sha256(owner.encode()).hexdigest()[:8]
    room = MAX_NAME - len(tail) - len(digest) - 1
    return f"{owner[:room].rstrip('-.')}-{digest}{tail}"


def selector(owner: str, component: str) -> dict[str, str]:
    """Labels that select the pods of one component."""
    return {LABEL_SERVICE: derive(owner), LABEL_COMPONENT: component}


def labels(owner: str, component: str) -> dict[str, str]:
    """All labels of a child."""
    return {
        **selector(owner, component),
        "app.kubernetes.io/name": f"paceline-{component}",
        "app.kubernetes.io/instance": derive(owner),
        LABEL_MANAGED_BY: OPERATOR,
    }


def selector_text(owner: str) -> str:
    """Selector of the engine pods in the form the scale subresource publishes."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector(owner, ENGINE).items()))
