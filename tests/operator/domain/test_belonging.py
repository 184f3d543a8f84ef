from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.belonging import belongs

OURS = {"apiVersion": "paceline.dev/v1alpha1", "kind": "InferenceService", "name": "a", "uid": "u"}


@pytest.mark.parametrize(
    ("metadata", "uid", "ours"),
    [
        ({"ownerReferences": [OURS]}, "u", True),
        ({"ownerReferences": [{"uid": "x"}, OURS]}, "u", True),
        ({"ownerReferences": [OURS]}, "newer", False),
        ({"ownerReferences": [{**OURS, "uid": ""}]}, "", False),
        ({"ownerReferences": []}, "u", False),
        ({"ownerReferences": None}, "u", False),
        ({"labels": {"paceline.dev/service": "a"}}, "u", False),
    ],
    ids=["ours", "ours too", "of one of our name", "no UID", "nobody's", "null", "labels alone"],
)
def test_belongs(metadata: dict[str, Any], uid: str, ours: bool) -> None:
    assert belongs({"metadata": metadata}, uid) is ours
