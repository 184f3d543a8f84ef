from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.former_limits import shortened


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, ()),
        ({"slos": None}, ()),
        ({"slos": ["x", {"name": "a", "windowSeconds": "long"}, {"name": "b"}]}, ()),
        ({"slos": [{"name": "a", "windowSeconds": 300}]}, ()),
        (
            {"slos": [{"name": "a", "windowSeconds": 301}, {"name": "b", "windowSeconds": 60},
                      {"name": "c", "windowSeconds": 3600}]},
            ("a", "c"),
        ),
    ],
)  # fmt: skip
def test_objectives_whose_window_is_longer_than_what_is_kept(
    spec: dict[str, Any], found: tuple[str, ...]
) -> None:
    assert shortened(spec) == found
