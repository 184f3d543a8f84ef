"""What every part of the API is built from: the base model, scalars, schema markers.

Markers steer `schema.py` and have no effect on parsing: `stored()` freezes a default into
stored objects, `free()` admits an object without a schema, `list_map()` makes a list keyed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from paceline_operator.api.rule import Rule, checked

STORED = "x-paceline-stored"
FREE = "x-kubernetes-preserve-unknown-fields"


class Model(BaseModel):
    """Base of all parts: frozen, camelCase on the wire, tolerant of unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


def _extra(extra: JsonDict) -> FieldInfo:
    found: FieldInfo = Field(json_schema_extra=extra)
    return found


def stored() -> FieldInfo:
    """Freeze this field's default into objects as they are written.

    For defaults whose later change would restart pods or alter what an objective means.
    """
    return _extra({STORED: True})


def free() -> FieldInfo:
    """Admit any object here: the schema is someone else's or private to the operator."""
    return _extra({FREE: True})


def list_map(*keys: str) -> FieldInfo:
    """Make a list of objects keyed: unique, and merged item by item when applied."""
    return _extra({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


Uri = Annotated[
    str,
    Field(min_length=1, max_length=1024, pattern=r"^[a-z][a-z0-9+.-]*://[^\s]+$"),
    checked(
        Rule(
            "!self.startsWith('file://') || self.startsWith('file:///')",
            "a file URI names an absolute path: file:///directory/model.gguf",
        ),
        Rule(
            "!self.contains('/../') && !self.endsWith('/..')",
            "a model URI must not climb directories with '..'",
        ),
    ),
]
Name = Annotated[str, Field(min_length=1, max_length=63)]
Word = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^\S+$")]
Replicas = Annotated[int, Field(ge=0, le=1024)]
Tokens = Annotated[int, Field(ge=16, le=1048576)]
Time = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
Quantity = Annotated[
    str,
    Field(min_length=1, max_length=32),
    checked(
        Rule(
            "isQuantity(self) && quantity(self).isInteger() && "
            "quantity(self).isGreaterThan(quantity('0'))",
            "must be a positive quantity of whole bytes such as 512Mi or 4Gi",
        )
    ),
]
