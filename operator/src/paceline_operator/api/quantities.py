"""Schema of a container's requests and limits.

The operator hands them on as they are, so in Python they stay a plain mapping.
"""

from __future__ import annotations

from pydantic.config import JsonDict

from paceline_operator.api.rule import VALIDATIONS, Rule

_AMOUNTS_ARE_QUANTITIES = Rule(
    "self.all(k, type(self[k]) == string ? isQuantity(self[k]) && "
    "!quantity(self[k]).isLessThan(quantity('0')) : self[k] >= 0)",
    "every amount must be a quantity that is not negative, such as 500m, 2 or 4Gi",
)


def _amounts(description: str) -> JsonDict:
    return {
        "type": "object",
        "description": description,
        "maxProperties": 16,
        "additionalProperties": {"x-kubernetes-int-or-string": True, "maxLength": 32},
        VALIDATIONS: [_AMOUNTS_ARE_QUANTITIES.to_schema()],
    }


RESOURCES_SCHEMA: JsonDict = {
    "properties": {
        "requests": _amounts("What each pod is scheduled with."),
        "limits": _amounts("What each pod may use at most."),
    },
}
