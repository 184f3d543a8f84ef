from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.domain.difference import differs, digest, stamped
from paceline_operator.domain.names import ANNOTATION_APPLIED

SAME: list[tuple[str, Any, Any]] = [
    ("server defaults", {"a": 1}, {"a": 1, "b": 2}),
    ("empty against absent", {"env": [], "a": ""}, {}),
    ("quantities in other words", {"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}),
    ("memory units", {"limits": {"memory": "1024Mi"}}, {"limits": {"memory": "1Gi"}}),
    (
        "keyed lists in another order",
        {"volumes": [{"name": "a"}, {"name": "b"}]},
        {"volumes": [{"name": "b", "x": 1}, {"name": "a"}, {"name": "foreign"}]},
    ),
    (
        "ports of a Service",
        {"ports": [{"name": "http", "port": 8000}]},
        {"ports": [{"name": "http", "port": 8000, "nodePort": 30000}]},
    ),
    (
        "a port that others added to a Service",
        {"ports": [{"port": 8000}]},
        {"ports": [{"port": 81}, {"port": 8000}]},
    ),
    (
        "an owner that others added",
        {"ownerReferences": [{"uid": "u"}]},
        {"ownerReferences": [{"uid": "x"}, {"uid": "u"}]},
    ),
    ("false against absent", {"readOnly": False}, {}),
]
OTHER: list[tuple[str, Any, Any]] = [
    ("a value", {"a": 1}, {"a": 2}),
    ("a missing value", {"a": 1}, {}),
    ("a missing object", {"a": {"b": 1}}, {}),
    ("a quantity", {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
    ("a keyed item is missing", {"volumes": [{"name": "a"}]}, {"volumes": [{"name": "b"}]}),
    ("a plain list is longer", {"args": ["a"]}, {"args": ["a", "b"]}),
    ("a plain list in another order", {"args": ["a", "b"]}, {"args": ["b", "a"]}),
    (
        "one port twice",
        {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]},
        {"ports": [{"port": 1, "name": "b"}]},
    ),
    ("a port", {"ports": [{"port": 1}]}, {"ports": [{"port": 2}]}),
    ("true against absent", {"readOnly": True}, {}),
]


@pytest.mark.parametrize(("desired", "live"), [c[1:] for c in SAME], ids=[c[0] for c in SAME])
def test_no_difference(desired: Any, live: Any) -> None:
    assert not differs(desired, live)


@pytest.mark.parametrize(("desired", "live"), [c[1:] for c in OTHER], ids=[c[0] for c in OTHER])
def test_difference(desired: Any, live: Any) -> None:
    assert differs(desired, live)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "ports", "env", "args"]), inner, max_size=3)
    ),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))


@given(PLAIN)
def test_nothing_differs_from_itself(value: dict[str, Any]) -> None:
    assert not differs(value, value)


@given(PLAIN)
def test_what_others_add_is_no_difference(value: dict[str, Any]) -> None:
    assert not differs(value, {**value, "foreign": 1})


def test_stamp_changes_when_a_field_is_no_longer_declared() -> None:
    full = {"metadata": {"name": "x"}, "spec": {"a": 1, "b": 2}}
    less = {"metadata": {"name": "x"}, "spec": {"a": 1}}
    assert differs(stamped(less), stamped(full))


def test_stamp_is_the_digest_of_the_bare_manifest() -> None:
    manifest = {"metadata": {"name": "x"}, "spec": {}}
    assert stamped(manifest)["metadata"]["annotations"] == {ANNOTATION_APPLIED: digest(manifest)}


def test_digest_does_not_depend_on_order() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
