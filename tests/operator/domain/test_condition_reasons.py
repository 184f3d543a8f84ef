"""`docs/conditions.md` has every reason that a condition can have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.tree import ROOT

PACKAGE = ROOT / "operator" / "src" / "paceline_operator"
PLACES = [*sorted((PACKAGE / "domain").glob("*.py")), *sorted((PACKAGE / "reconcile").glob("*.py"))]
PAGE = (ROOT / "docs" / "conditions.md").read_text()
WHERE = {"Verdict": 1, "Problem": 0}
"""Which argument of a call is a reason."""


def constants(tree: ast.Module) -> dict[str, set[str]]:
    """Names of a module for texts, single or in sets."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            texts = {n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)}
            found[node.targets[0].id] = {text for text in texts if isinstance(text, str)}
    return found


def of_call(call: ast.Call, known: dict[str, set[str]]) -> Iterator[str]:
    """The reason of a verdict or a problem, as a text or by name."""
    place = WHERE.get(call.func.id, 99) if isinstance(call.func, ast.Name) else 99
    reason = call.args[place] if len(call.args) > place else None
    if isinstance(reason, ast.Constant):
        yield str(reason.value)
    elif isinstance(reason, ast.Name):
        yield from known.get(reason.id, ())


def of_error(kind: ast.ClassDef) -> Iterator[str]:
    """The reason that an error stands for."""
    for line in kind.body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "reason":
            yield ast.literal_eval(line.value)


def given(path: Path) -> Iterator[str]:
    """Reasons that a module gives."""
    tree = ast.parse(path.read_text())
    known = constants(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from of_call(node, known)
        if isinstance(node, ast.ClassDef):
            yield from of_error(node)
    yield from (text for name in known if name.endswith("_REASONS") for text in known[name])


def test_every_reason_of_a_condition_is_told_of() -> None:
    listed = {name for row in re.findall(r"^\| (`.+?`) \|", PAGE, re.MULTILINE)
              for name in re.findall(r"`(\w+)`", row)}  # fmt: skip
    found = {reason for path in PLACES for reason in given(path) if reason}
    assert len(found) > 30
    assert sorted(found - listed) == []
    code = "".join(path.read_text() for path in PLACES)
    assert [name for name in sorted(listed) if f'"{name}"' not in code] == []
