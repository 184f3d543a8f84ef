"""What `--json` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from paceline_operator.cli.explanation import Explanation
from paceline_operator.cli.service import Service


def status_document(service: Service) -> dict[str, Any]:
    """The status without what is private to the operator."""
    status = service.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    status.pop("memory", None)
    return {"name": service.name, "namespace": service.namespace, **status}


def explanation_document(service: Service, explanation: Explanation) -> dict[str, Any]:
    """The sentences, and the figures they were made from."""
    return {
        "name": service.name,
        "namespace": service.namespace,
        **asdict(explanation),
        "status": status_document(service),
    }
