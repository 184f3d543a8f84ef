"""Typed access to what a checkpoint says of itself, which may be anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from paceline_engine.weights.errors import CorruptCheckpointError

# No size of a model comes near; Python's own whole numbers have no end.
_LARGEST: Final = 1 << 40


class Fields:
    """Named values of a configuration.

    Args:
        path: The file they came from, for errors.
        values: By key; null stands for an absent one.
    """

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self.values = values

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number of 0 to 2^40.

        Raises:
            CorruptCheckpointError: It is none, or is absent and has no default.
        """
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "whole number", value)
        if not 0 <= value <= _LARGEST:
            raise CorruptCheckpointError(self.path, f"states {key} as {_brief(value)}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number.

        Raises:
            CorruptCheckpointError: As for `integer`.
        """
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "number", value)
        if not -_LARGEST <= value <= _LARGEST:  # also no NaN
            raise CorruptCheckpointError(self.path, f"states {key} as {_brief(value)}")
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        """A finite number above 0.

        Raises:
            CorruptCheckpointError: As for `integer`.
        """
        value = self.number(key, default)
        if value <= 0:
            raise CorruptCheckpointError(self.path, f"states {key} as {value}")
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false.

        Raises:
            CorruptCheckpointError: It is neither.
        """
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text.

        Raises:
            CorruptCheckpointError: As for `integer`.
        """
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "text", value)
        return value

    def positives(self, key: str, length: int) -> tuple[float, ...]:
        """A list of finite numbers above 0.

        Raises:
            CorruptCheckpointError: It is none, or has another length.
        """
        value = self._value(key, None)
        if not isinstance(value, list) or len(value) != length:
            raise self._wrong(key, f"list of {length} numbers", value)
        return positive_numbers(self.path, key, value)

    def inner(self, key: str) -> Fields:
        """The fields of an object inside; none where it is absent.

        Raises:
            CorruptCheckpointError: The value is no object.
        """
        value = self._value(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "object", value)
        return Fields(self.path, value)

    def _value(self, key: str, default: object) -> object:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise CorruptCheckpointError(self.path, f"lacks {key}")
        return value

    def _wrong(self, key: str, kind: str, value: object) -> CorruptCheckpointError:
        return CorruptCheckpointError(self.path, f"has no {kind} under {key}: {_brief(value)}")


def positive_numbers(path: Path, key: str, values: list[Any]) -> tuple[float, ...]:
    """Checks that all `values` are finite numbers above 0.

    Raises:
        CorruptCheckpointError: One is not.
    """
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            raise CorruptCheckpointError(path, f"has {_brief(value)} in {key}")
    return tuple(map(float, values))


def _brief(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) <= _LARGEST else "a huge number"
    return text if len(text) <= 60 else text[:60] + "..."
