"""What the API server would refuse of an object, by the schema of its definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from paceline_operator.api.base import FREE
from paceline_operator.api.crd import object_schema
from paceline_operator.api.rule import VALIDATIONS
from paceline_operator.api.schema import Schema
from paceline_operator.cli.admission_rules import RULES

_KEYS = "x-kubernetes-list-map-keys"
_EITHER = "x-kubernetes-int-or-string"
ALIKE = 0.75
"""Similarity from which a field is taken for another one, misspelt."""
_OPENED = {"properties", "items", "additionalProperties"}
"""What describes the inside of a value."""
_CLASSES: Mapping[str, type] = {
    "string": str,
    "boolean": bool,
    "object": dict,
    "array": list,
}


def without_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    """As the server reads it: a null of a field that may not be null is a field left out.

    Nulls in lists and in what has no schema stay.

    Args:
        document: Name and spec, whatever else the object has.
    """
    found: dict[str, Any] = _pruned(object_schema(), document)
    return found


def _pruned(node: Schema, value: Any) -> Any:
    if node.get(FREE):
        return value
    if isinstance(value, list) and "items" in node:
        return [_pruned(node["items"], each) for each in value]
    if not isinstance(value, Mapping):
        return value
    rest = node.get("additionalProperties", {})
    children = {key: node.get("properties", {}).get(key, rest) for key in value}
    return {
        key: _pruned(children[key], each)
        for key, each in value.items()
        if each is not None or not children[key] or children[key].get("nullable")
    }


def wrong_field(document: Mapping[str, Any]) -> str | None:
    """The first field that is not there, or is missing; None where the names are right.

    Args:
        document: Name and spec, whatever else the object has.
    """
    schema = object_schema()
    schema["properties"].pop("status")
    return _wrong_name(schema, document, "")


def refusal(document: Mapping[str, Any]) -> str | None:
    """The first thing that would be refused, led by its path; None where it would be taken.

    Patterns, lengths and words of single values are left to the models.

    Args:
        document: Name and spec, whatever else the object has.
    """
    schema = object_schema()
    schema["properties"].pop("status")
    return (
        _wrong_name(schema, document, "")
        or _wrong_shape(schema, document, "")
        or _broken(schema, _stored(schema, document), "")
    )


def _wrong_shape(node: Schema, value: Any, path: str) -> str | None:
    """The first field that is not there, of another type, or out of its range."""
    if value is None:  # the server drops it
        return None
    wanted = "integer or string" if node.get(_EITHER) else str(node.get("type", ""))
    if not _is_of(wanted, value):
        return f"{path}: must be of type {wanted}{_remedy(wanted, value)}"
    if wanted == "integer" and not _is_in_range(node, value):
        return f"{path}: {value} must be {_range(node)}"
    found = (
        _wrong_shape(child, inner, where) for child, inner, where in _inside(node, value, path)
    )
    return next((each for each in found if each is not None), None)


def _wrong_name(node: Schema, value: Any, path: str) -> str | None:
    if isinstance(value, dict) and (found := _wrong_fields(node, value, path)) is not None:
        return found
    inside = (_wrong_name(*each) for each in _inside(node, value, path))
    return next((each for each in inside if each is not None), None)


def _wrong_fields(node: Schema, value: Mapping[str, Any], path: str) -> str | None:
    """A field that is not there, which hides the one that is missing for it, or one that is."""
    if _is_closed(node):
        unknown = next((key for key in value if key not in node["properties"]), None)
        if unknown is not None:
            return f"{_under(path, unknown)}: there is no such field{_meant(node, unknown)}"
    missing = next((key for key in node.get("required", ()) if value.get(key) is None), None)
    return None if missing is None else f"{_under(path, missing)}: is required"


def _meant(node: Schema, unknown: Any) -> str:
    by_lower = {key.lower(): key for key in node["properties"]}
    close = get_close_matches(str(unknown).lower(), by_lower, n=1, cutoff=ALIKE)
    return f"; did you mean {by_lower[close[0]]}?" if close else "; correct or remove it"


def _range(node: Schema) -> str:
    least, most = node.get("minimum"), node.get("maximum")
    if least is None or most is None:
        return f"at most {most}" if least is None else f"at least {least}"
    return f"from {least} to {most}"


def _remedy(wanted: str, value: Any) -> str:
    """What to do where only quotes are wrong."""
    if wanted == "integer" and isinstance(value, str) and value.isdecimal():
        return f"; write {value} without quotes"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (wanted == "string" or _has_point(wanted, value)):
        return f'; write it in quotes, as in "{value}"'
    return ""


def _has_point(wanted: str, value: Any) -> bool:
    return wanted == "integer or string" and isinstance(value, float)


def _is_of(wanted: str, value: Any) -> bool:
    if wanted == "integer or string":
        return isinstance(value, int | str) and not isinstance(value, bool)
    if wanted == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return wanted not in _CLASSES or isinstance(value, _CLASSES[wanted])


def _is_in_range(node: Schema, value: int) -> bool:
    # A model may bring what was stored under former limits within those of today.
    is_above = "minimum" not in node or value >= node["minimum"]
    return is_above and ("maximum" not in node or value <= node["maximum"])


def _is_closed(node: Schema) -> bool:
    return "properties" in node and not node.get(FREE) and "additionalProperties" not in node


def _stored(node: Schema, value: Any) -> Any:
    """As the server stores it: with defaults, without nulls."""
    if node.get(FREE) or not node.keys() & _OPENED:
        return value
    if isinstance(value, list):
        return [_stored(node["items"], each) for each in value]
    fields = node.get("properties", {})
    defaults = {name: child["default"] for name, child in fields.items() if "default" in child}
    given = {key: each for key, each in value.items() if each is not None}
    return {key: _stored(fields.get(key, {}), each) for key, each in {**defaults, **given}.items()}


def _broken(node: Schema, value: Any, path: str) -> str | None:
    """The first rule that does not hold, or entry of a list that is there twice."""
    for rule in node.get(VALIDATIONS, ()):
        if not RULES[rule["rule"]](value):
            where = f"{path}{rule.get('fieldPath', '')}".removeprefix(".")
            return f"{where}: {rule['message']}" if where else str(rule["message"])
    return _double(node, value, path) or next(
        (
            found
            for child, inner, where in _inside(node, value, path)
            if (found := _broken(child, inner, where)) is not None
        ),
        None,
    )


def _double(node: Schema, value: Any, path: str) -> str | None:
    keys = node.get(_KEYS, ())
    if not keys:
        return None
    counts = Counter(tuple(each.get(key) for key in keys) for each in value)
    twice = next((key for key, count in counts.items() if count > 1), None)
    return None if twice is None else f"{path}: {', '.join(map(str, twice))}: duplicate value"


def _inside(node: Schema, value: Any, path: str) -> Iterator[tuple[Schema, Any, str]]:
    """Schema, value and path of all that is described inside."""
    if isinstance(value, list) and "items" in node:
        yield from ((node["items"], each, f"{path}[{n}]") for n, each in enumerate(value))
    elif isinstance(value, dict):
        rest = node.get("additionalProperties")
        for key, each in value.items():
            child = node.get("properties", {}).get(key, rest)
            if child is not None:
                yield child, each, _under(path, key)


def _under(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
