"""What an engine has of its node, as far as another share is another plant."""

from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.compute import granted


def pod(asked: dict[str, Any] | None, given: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = {"containers": [{"name": "other"}, {"name": "engine", "resources": asked or {}}]}
    statuses = [{"name": "engine", "resources": given}] if given is not None else []
    return {"spec": spec, "status": {"containerStatuses": statuses}}


CPU = {"requests": {"cpu": "1", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (pod(CPU), pod({"requests": {"memory": "1024Mi", "cpu": "1000m"}}), True),
        (pod(CPU), pod({"requests": {"cpu": "2", "memory": "1Gi"}}), False),
        (pod(CPU), pod(CPU, {"requests": {"cpu": "2", "memory": "1Gi"}}), False),
        (pod(CPU), pod(CPU, CPU), True),
        (pod(CPU), pod(CPU, {}), True),
        (pod(CPU), pod({**CPU, "limits": {"cpu": "1"}}), False),
        (pod(None), {}, True),
    ],
    ids=["spelt otherwise", "more", "resized in place", "as asked", "untold", "limit", "nothing"],
)
def test_other_resources_read_otherwise(
    first: dict[str, Any], second: dict[str, Any], same: bool
) -> None:
    assert (granted(first) == granted(second)) is same


def test_it_says_what_they_are() -> None:
    assert granted(pod(CPU)) == "requests.cpu=1,requests.memory=1073741824"
    assert granted(pod({"limits": {"cpu": "x"}})) == "limits.cpu=x"
