"""YAML as people write it: whatever keeps it from being read is one error with one line."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml
from typing_extensions import override
from yaml.composer import ComposerError

MISSHAPEN = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""PyYAML makes values of what looks like some, or is tagged so, and fails as Python does."""
_MERGE = "tag:yaml.org,2002:merge"
MAX_DEPTH = 200
"""Far more than any object has; and what Python's own limit lets PyYAML descend."""
MAX_REPEATED = 100_000
"""Values that aliases repeat; a few hundred bytes can stand for billions."""


class YamlError(Exception):
    """The text is no YAML; this one is one line."""


class _Extent(NamedTuple):
    """How large a value is with every alias written out.

    Attributes:
        values: It, and all inside.
        depth: Levels, 1 for a scalar.
    """

    values: int
    depth: int


class _Loader(yaml.SafeLoader):
    """Refuses, while it reads, what would take all memory or time once read."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._repeated = 0
        self._extents: dict[yaml.Node, _Extent] = {}

    @override
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next value; counts it as often as it is there."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ComposerError(None, None, f"nested more than {MAX_DEPTH} levels deep", mark)
        node = super().compose_node(parent, index)
        if node is not None and is_alias:
            self._check_alias(node, mark)
        elif node is not None:
            _check_keys(node)
            self._extents[node] = self._extent(node)
        self._depth -= 1
        return node

    def _check_alias(self, node: yaml.Node, mark: Any) -> None:
        extent = self._extents.get(node)
        if extent is None:
            raise ComposerError(None, None, "the value of an anchor contains itself", mark)
        self._repeated += extent.values
        if self._repeated > MAX_REPEATED:
            said = f"aliases repeat more than {MAX_REPEATED} values; write them out, or fewer"
            raise ComposerError(None, None, said, mark)
        if self._depth - 1 + extent.depth > MAX_DEPTH:
            raise ComposerError(None, None, f"nested more than {MAX_DEPTH} levels deep", mark)

    def _extent(self, node: yaml.Node) -> _Extent:
        inside = [self._extents[each] for each in _children(node)]
        return _Extent(
            values=1 + sum(each.values for each in inside),
            depth=1 + max((each.depth for each in inside), default=0),
        )


def _check_keys(node: yaml.Node) -> None:
    """Refuses a key that is there twice: PyYAML would take the last one silently."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        if (key.tag, key.value) in seen:
            said = f"the key {key.value!r} is there twice; remove one"
            raise ComposerError(None, None, said, key.start_mark)
        seen.add((key.tag, key.value))


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def documents(text: str) -> list[Any]:
    """All documents of a text.

    Raises:
        YamlError: It is no YAML, a value of it is none of its kind, a key is there twice,
            or it is nested or repeated beyond measure.
    """
    try:
        return list(yaml.load_all(text, _Loader))
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
