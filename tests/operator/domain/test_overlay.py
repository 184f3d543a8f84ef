from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.domain.errors import InvalidOverlayError
from paceline_operator.domain.overlay import check_depth, lay_over

CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("adds", {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    ("replaces", {"a": 1}, {"a": 2}, {"a": 2}),
    ("null removes", {"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    ("merges objects", {"m": {"a": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "b": 2}}),
    ("replaces plain lists", {"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}),
    (
        "merges env by name, order kept",
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
        {
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "value": "3"},
                {"name": "C", "value": "4"},
            ]
        },
    ),
    (
        "merges mounts by path",
        {"volumeMounts": [{"mountPath": "/a", "name": "x"}]},
        {"volumeMounts": [{"mountPath": "/a", "readOnly": True}]},
        {"volumeMounts": [{"mountPath": "/a", "name": "x", "readOnly": True}]},
    ),
    (
        "merges ports by number",
        {"ports": [{"containerPort": 8000, "name": "http"}]},
        {"ports": [{"containerPort": 9000}]},
        {"ports": [{"containerPort": 8000, "name": "http"}, {"containerPort": 9000}]},
    ),
    (
        "merges inside containers",
        {"containers": [{"name": "engine", "env": [{"name": "A", "value": "1"}]}]},
        {"containers": [{"name": "engine", "env": [{"name": "A", "value": "2"}]}, {"name": "x"}]},
        {"containers": [{"name": "engine", "env": [{"name": "A", "value": "2"}]}, {"name": "x"}]},
    ),
]


@pytest.mark.parametrize(
    ("base", "overlay", "merged"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_lay_over(base: dict[str, Any], overlay: dict[str, Any], merged: dict[str, Any]) -> None:
    assert lay_over(base, overlay) == merged


@pytest.mark.parametrize(
    "overlay",
    [
        {"env": {"A": 1}},
        {"env": [{"value": "1"}]},
        {"containers": ["engine"]},
        {"env": [{"name": {"a": 1}, "value": "5"}]},
        {"volumes": [{"name": ["x"]}]},
        {"ports": [{"containerPort": None}]},
        {"volumeMounts": 5},
    ],
    ids=["not a list", "no key", "no object", "key an object", "key a list", "key null", "number"],
)
def test_wrong_shape_is_refused_with_the_list_named(overlay: dict[str, Any]) -> None:
    with pytest.raises(InvalidOverlayError, match=next(iter(overlay))):
        lay_over({}, overlay)


@pytest.mark.parametrize("key", ["labels", "annotations", "nodeSelector"])
def test_a_label_may_bear_the_name_of_a_list(key: str) -> None:
    overlay = {key: {"env": "prod", "ports": "none"}}
    assert lay_over({key: {"a": "b"}}, overlay) == {key: {"a": "b", "env": "prod", "ports": "none"}}


def test_a_list_is_not_replaced_by_text() -> None:
    with pytest.raises(InvalidOverlayError, match="env must be a list"):
        lay_over({"env": [{"name": "A"}]}, {"env": "A"})


@pytest.mark.parametrize("kind", ["objects", "lists"])
def test_what_is_nested_too_deep_is_refused(kind: str) -> None:
    value: Any = "x"
    for _ in range(5_000):
        value = {"a": value} if kind == "objects" else [value]
    with pytest.raises(InvalidOverlayError, match="levels deep"):
        check_depth({"spec": value})
    check_depth({"spec": {"containers": [{"env": [{"name": "A"}]}]}})


NAMED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("ABCD"), "value": st.text(max_size=3)}),
    max_size=4,
    unique_by=lambda item: item["name"],
)


@given(NAMED, NAMED)
def test_laying_over_twice_changes_nothing_more(base: list[Any], overlay: list[Any]) -> None:
    once = lay_over({"env": base}, {"env": overlay})
    assert lay_over(once, {"env": overlay}) == once


@given(NAMED, NAMED)
def test_overlay_wins_and_nothing_else_is_lost(base: list[Any], overlay: list[Any]) -> None:
    merged = {
        item["name"]: item["value"] for item in lay_over({"env": base}, {"env": overlay})["env"]
    }
    expected = {i["name"]: i["value"] for i in base} | {i["name"]: i["value"] for i in overlay}
    assert merged == expected
