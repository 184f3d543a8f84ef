"""From pydantic models to structural schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from paceline_operator.api.base import Model, free, list_map, stored
from paceline_operator.api.rule import VALIDATIONS, Reason, Rule, checked, rules
from paceline_operator.api.schema import SchemaError, structural_schema, walk


class Inner(Model):
    """Inner part."""

    size: Annotated[int, stored()] = 7
    """How large."""
    note: str = "x"
    """Not stored."""


class Item(Model):
    name: str


class Everything(Model):
    """All of it."""

    maybe: int | None = None
    small: Annotated[int, Field(ge=1, le=100)] = 3
    either: int | str = 1
    only: Literal["one"] = "one"
    words: frozenset[str] = frozenset()
    plain_list: tuple[str, ...] = ()
    keyed: Annotated[tuple[Item, ...], list_map("name")] = ()
    counts: dict[str, int] = Field(default_factory=dict)
    anything: Annotated[dict[str, Any] | None, free()] = None
    inner: Annotated[Inner, stored()] = Inner()
    """Inner part, as used here."""
    wanted_name: str


@pytest.fixture(scope="module")
def properties() -> dict[str, Any]:
    schema = structural_schema(Everything)
    assert schema["required"] == ["wantedName"]
    found: dict[str, Any] = schema["properties"]
    return found


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("maybe", {"type": "integer", "format": "int64"}),
        ("small", {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100}),
        ("either", {"x-kubernetes-int-or-string": True}),
        ("only", {"type": "string", "enum": ["one"]}),
        (
            "words",
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        ),
        (
            "plainList",
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        ),
        (
            "counts",
            {"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}},
        ),
    ],
)
def test_fields(properties: dict[str, Any], field: str, wanted: dict[str, Any]) -> None:
    assert properties[field] == wanted


def test_keyed_list(properties: dict[str, Any]) -> None:
    assert properties["keyed"]["x-kubernetes-list-type"] == "map"
    assert properties["keyed"]["x-kubernetes-list-map-keys"] == ["name"]


def test_free_object(properties: dict[str, Any]) -> None:
    assert properties["anything"]["x-kubernetes-preserve-unknown-fields"] is True


def test_only_stored_defaults_stay_and_objects_hold_those_of_their_fields(
    properties: dict[str, Any],
) -> None:
    assert properties["inner"]["default"] == {"size": 7}
    assert properties["inner"]["properties"]["size"]["default"] == 7
    assert "default" not in properties["inner"]["properties"]["note"]
    assert "default" not in properties["small"]


def test_the_fields_description_wins_over_the_class(properties: dict[str, Any]) -> None:
    assert properties["inner"]["description"] == "Inner part, as used here."


def test_rules_stand_where_they_were_declared() -> None:
    class Ruled(Model):
        model_config = rules(Rule("self.a > 1", "too small", ".a", Reason.REQUIRED))
        a: int
        b: Annotated[str, checked(Rule("self != ''", "empty"))]

    schema = structural_schema(Ruled)
    assert schema[VALIDATIONS] == [
        {
            "rule": "self.a > 1", "message": "too small", "fieldPath": ".a",
            "reason": "FieldValueRequired",
        }
    ]  # fmt: skip
    assert schema["properties"]["b"][VALIDATIONS] == [{"rule": "self != ''", "message": "empty"}]


class Recursive(Model):
    child: Recursive | None = None


class Union(Model):
    choice: Inner | Item


class Fixed(Model):
    pair: tuple[int, str]


class Open(Model):
    share: Annotated[float, Field(gt=0)]


class Unmarked(Model):
    anything: dict[str, Any]


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (Recursive, "Recursive.child: Recursive contains itself"),
        (Union, "Union.choice: a union"),
        (Fixed, "Fixed.pair: prefixItems has no structural form"),
        (Open, "Open.share: exclusiveMinimum has no structural form"),
        (Unmarked, "Unmarked.anything: an object without fields"),
    ],
)
def test_what_cannot_be_said_is_an_error_that_names_the_field(
    model: type[Model], problem: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        structural_schema(model)
    assert str(caught.value).startswith(problem)


def test_walk_reaches_every_node() -> None:
    seen: list[str] = []
    walk(structural_schema(Everything), lambda path, _: seen.append(path))
    assert {"", ".inner.size", ".keyed[].name", ".counts[*]", ".words[]"} <= set(seen)
