"""From pydantic's JSON schema to the structural schema a CustomResourceDefinition takes.

References are inlined, optional unions reduced to the value, and defaults dropped unless
marked as stored. What a structural schema cannot say is an error that names the field,
never a silent loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from paceline_operator.api.base import FREE, STORED

Schema = dict[str, Any]

_INT32_MAX = 2**31 - 1
_UNSAYABLE = ("oneOf", "allOf", "not", "prefixItems", "exclusiveMinimum", "exclusiveMaximum")
_DROPPED = ("title", "discriminator", "$defs", STORED)


class SchemaError(ValueError):
    """A model cannot be said as a structural schema."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def structural_schema(model: type[BaseModel]) -> Schema:
    """Structural schema of a model, field names as on the wire.

    Args:
        model: Root model; everything it contains is inlined.

    Raises:
        SchemaError: A field recurses, is a union, a tuple of fixed length, an open interval,
            or an object without a schema that is not marked as free.
    """
    raw = model.model_json_schema(by_alias=True)
    return _Inliner(raw.get("$defs", {})).convert(raw, model.__name__, ())


class _Inliner:
    """Converts nodes; knows the shared definitions and, on the stack, who contains whom."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def convert(self, node: Schema, path: str, stack: tuple[str, ...]) -> Schema:
        node, stack = self._resolve(node, path, stack)
        _reject_unsayable(node, path)
        node = _plain(node)
        self._convert_children(node, path, stack)
        _check_object(node, path)
        return _with_default(node)

    def _resolve(
        self, node: Schema, path: str, stack: tuple[str, ...]
    ) -> tuple[Schema, tuple[str, ...]]:
        """Replace references and optional unions until neither is left."""
        while "$ref" in node or "anyOf" in node:
            if "$ref" in node:
                name = str(node["$ref"]).rpartition("/")[2]
                if name in stack:
                    raise SchemaError(path, f"{name} contains itself")
                stack = (*stack, name)
                node = _overlay(self._definitions[name], node, "$ref")
            else:
                node = _overlay(_only_alternative(node, path), node, "anyOf")
        return node, stack

    def _convert_children(self, node: Schema, path: str, stack: tuple[str, ...]) -> None:
        if "properties" in node:
            node["properties"] = {
                name: self.convert(child, f"{path}.{name}", stack)
                for name, child in node["properties"].items()
            }
        if isinstance(node.get("additionalProperties"), dict):
            node["additionalProperties"] = self.convert(
                node["additionalProperties"], f"{path}[*]", stack
            )
        if "items" in node:
            node["items"] = self.convert(node["items"], f"{path}[]", stack)


def _overlay(base: Schema, over: Schema, dropped: str) -> Schema:
    return {**base, **{key: value for key, value in over.items() if key != dropped}}


def _only_alternative(node: Schema, path: str) -> Schema:
    """The value of `X | None`, or the integer-or-string form of `int | str`."""
    alternatives = [entry for entry in node["anyOf"] if entry.get("type") != "null"]
    if len(alternatives) == 1:
        found: Schema = alternatives[0]
        return found
    if sorted(str(entry.get("type")) for entry in alternatives) == ["integer", "string"]:
        return {"x-kubernetes-int-or-string": True}
    raise SchemaError(path, "a union; use a mode enum with optional blocks and a CEL rule")


def _reject_unsayable(node: Schema, path: str) -> None:
    for keyword in _UNSAYABLE:
        if keyword in node:
            raise SchemaError(path, f"{keyword} has no structural form")


def _plain(node: Schema) -> Schema:
    """Rewrite keywords that structural schemas spell differently or do not know."""
    plain = {key: value for key, value in node.items() if key not in _DROPPED or key == STORED}
    if isinstance(plain.get("additionalProperties"), bool):
        del plain["additionalProperties"]
    if "const" in plain:
        plain["enum"] = [plain.pop("const")]
    if plain.pop("uniqueItems", False):
        plain["x-kubernetes-list-type"] = "set"
    if plain.get("type") == "array":
        plain.setdefault("x-kubernetes-list-type", "atomic")
    if plain.get("type") == "integer":
        plain.setdefault("format", _integer_format(plain))
    if "description" in plain:
        plain["description"] = " ".join(str(plain["description"]).split())
    return plain


def _integer_format(node: Schema) -> str:
    return "int32" if node.get("maximum", _INT32_MAX + 1) <= _INT32_MAX else "int64"


def _with_default(node: Schema) -> Schema:
    """Keep a default only where it is stored; an object's holds its fields' stored ones."""
    is_stored = node.pop(STORED, False)
    if not is_stored:
        node.pop("default", None)
    elif node.get("type") == "object":
        fields = node["properties"].items()
        node["default"] = {name: child["default"] for name, child in fields if "default" in child}
    return node


def _check_object(node: Schema, path: str) -> None:
    if node.get("type") != "object" or node.get(FREE):
        return
    if "properties" not in node and "additionalProperties" not in node:
        raise SchemaError(path, "an object without fields; describe it or mark it as free()")


def walk(node: Schema, visit: Callable[[str, Schema], None], path: str = "") -> None:
    """Call `visit(path, node)` for a converted node and everything below it."""
    visit(path, node)
    for name, child in node.get("properties", {}).items():
        walk(child, visit, f"{path}.{name}")
    if isinstance(node.get("additionalProperties"), dict):
        walk(node["additionalProperties"], visit, f"{path}[*]")
    if "items" in node:
        walk(node["items"], visit, f"{path}[]")
