"""`docs/conditions.md` has every reason that a condition can have, in the section of that one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tree import ROOT

PACKAGE = ROOT / "operator" / "src" / "paceline_operator"
VERDICTS = PACKAGE / "domain" / "verdicts.py"
OF_PODS = ["pods", "crash_loop", "rollout"]
OTHERS = [
    path
    for folder in ("domain", "reconcile")
    for path in sorted((PACKAGE / folder).glob("*.py"))
    if path != VERDICTS and path.stem not in OF_PODS
]
PAGE = (ROOT / "docs" / "conditions.md").read_text()
CONDITIONS = {
    "Ready": ["ready"],
    "Stalled": ["stalled"],
    "Reconciling": ["reconciling"],
    "MetricsFresh": ["metrics_fresh"],
    "SLOMet and SLOFeasible": ["slo_met", "slo_feasible"],
    "Conflict and ScalingLimited": ["conflict", "scaling_limited"],
}
"""Section -> functions that give its verdicts."""
ALSO_READY = {"CrashLoop"}
"""Reasons of `Stalled` that its section leaves to that of `Ready`."""
REASON_AT = {"Verdict": 1, "Problem": 0}
"""Which argument of a call is a reason."""


def texts(node: ast.AST) -> set[str]:
    """Texts in an expression."""
    found = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
    return {text for text in found if isinstance(text, str)}


def named(scope: ast.AST) -> dict[str, set[str]]:
    """Names of a scope for texts, single or in sets."""
    return {
        node.targets[0].id: texts(node.value)
        for node in ast.iter_child_nodes(scope)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def imported(tree: ast.Module) -> dict[str, set[str]]:
    """Names a module has from others of this package, as far as they are texts."""
    found: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("paceline_operator."):
            path = PACKAGE.parent / f"{str(node.module).replace('.', '/')}.py"
            known = named(ast.parse(path.read_text())) if path.is_file() else {}
            found |= {each.name: known[each.name] for each in node.names if each.name in known}
    return found


def choices(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression may come to."""
    if isinstance(node, ast.IfExp):
        yield from (each for branch in (node.body, node.orelse) for each in choices(branch))
    else:
        yield node


def of_calls(scope: ast.AST, known: dict[str, set[str]]) -> Iterator[str]:
    """Reasons of the verdicts and problems that are made in a scope, as texts or by name."""
    for call in ast.walk(scope):
        place = REASON_AT.get(ast.unparse(call.func), 99) if isinstance(call, ast.Call) else 99
        if isinstance(call, ast.Call) and len(call.args) > place:
            for reason in choices(call.args[place]):
                found = known.get(reason.id) if isinstance(reason, ast.Name) else None
                yield from texts(reason) if found is None else found


def of_verdicts(roots: list[str]) -> set[str]:
    """Reasons that some functions of verdicts give, and those they call."""
    tree = ast.parse(VERDICTS.read_text())
    made = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    known, found, reached, due = named(tree) | imported(tree), set[str](), set[str](), [*roots]
    while due:
        name = due.pop()
        reached.add(name)
        found |= set(of_calls(made[name], known | named(made[name])))
        called = {n.id for n in ast.walk(made[name]) if isinstance(n, ast.Name)}
        due += sorted(called & made.keys() - reached)
    return found


def of_module(path: Path) -> set[str]:
    """Reasons that a module gives: of problems, of errors, and those it passes on from outside."""
    tree = ast.parse(path.read_text())
    known = named(tree) | imported(tree)
    errors = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    passed_on = (known[name] for name in known if name.endswith("_REASONS"))
    return set().union(
        of_calls(tree, known), *passed_on, *(named(error).get("reason", set()) for error in errors)
    )


def given(section: str) -> set[str]:
    """Reasons that the conditions of a section can have by the code."""
    found = of_verdicts(CONDITIONS[section])
    if section == "Ready":
        found |= set().union(*(of_module(PACKAGE / "domain" / f"{stem}.py") for stem in OF_PODS))
    if section == "Stalled":
        found = found.union(*map(of_module, OTHERS)) - ALSO_READY
    return found


def listed(section: str) -> set[str]:
    """Reasons that a section of the page has."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_every_condition_has_a_section() -> None:
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == list(CONDITIONS)


@pytest.mark.parametrize("section", CONDITIONS)
def test_every_reason_of_a_condition_is_told_of_in_its_section(section: str) -> None:
    assert sorted(listed(section)) == sorted(given(section))
