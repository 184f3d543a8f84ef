"""YAML as people write it: whatever keeps it from being read is one error with one line."""

from __future__ import annotations

from typing import Any

import yaml

MISSHAPEN = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""PyYAML makes values of what looks like some, or is tagged so, and fails as Python does."""


class YamlError(Exception):
    """The text is no YAML; this one is one line."""


def documents(text: str) -> list[Any]:
    """All documents of a text.

    Raises:
        YamlError: It is no YAML, or a value of it is none of its kind.
    """
    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, *MISSHAPEN) as error:
        raise YamlError(_one_line(error)) from error


def document(text: str) -> Any:
    """The one document of a text, None where it is empty.

    Raises:
        YamlError: See `documents`; or there are several.
    """
    found = documents(text)
    if len(found) > 1:
        raise YamlError(f"{len(found)} documents; give it one")
    return found[0] if found else None


def _one_line(error: Exception) -> str:
    said = " ".join(str(error).split())
    if isinstance(error, yaml.YAMLError | RecursionError | ValueError):
        return said
    return f"a value does not fit its tag ({said})"
