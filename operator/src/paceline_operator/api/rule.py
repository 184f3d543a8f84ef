"""Constraints that a type cannot say: CEL rules as metadata of a model or a field.

`rules(...)` goes into a class as its `model_config`; `checked(...)` into an `Annotated`
field. Both end up as `x-kubernetes-validations` at that node of the generated schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

VALIDATIONS = "x-kubernetes-validations"


class Reason(StrEnum):
    """Machine-readable cause the API server reports for a broken rule.

    Its `FieldValueDuplicate` is left out: with it the server keeps the message to itself.
    """

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True, slots=True)
class Rule:
    """One CEL rule.

    Attributes:
        expression: CEL over `self`, true where the object is valid.
        message: One line: what is wrong and what to do.
        field_path: Field the error names, relative to the node, with a leading dot.
        reason: Cause reported with the error.
    """

    expression: str
    message: str
    field_path: str | None = None
    reason: Reason = Reason.INVALID

    def to_schema(self) -> JsonDict:
        """Render as one entry of `x-kubernetes-validations`."""
        entry: JsonDict = {"rule": " ".join(self.expression.split()), "message": self.message}
        if self.field_path is not None:
            entry["fieldPath"] = self.field_path
        if self.reason is not Reason.INVALID:
            entry["reason"] = self.reason.value
        return entry


def rules(*declared: Rule) -> ConfigDict:
    """Attach rules to a model class; merges with the configuration of its bases."""
    return ConfigDict(json_schema_extra={VALIDATIONS: [rule.to_schema() for rule in declared]})


def checked(*declared: Rule) -> FieldInfo:
    """Attach rules to one field, as metadata of `Annotated`."""
    found: FieldInfo = Field(
        json_schema_extra={VALIDATIONS: [rule.to_schema() for rule in declared]}
    )
    return found
