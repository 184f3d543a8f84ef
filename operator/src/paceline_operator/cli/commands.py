"""Commands of `kubectl-paceline`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from paceline_operator.cli import document, status_view
from paceline_operator.cli.exit_code import UNANSWERED
from paceline_operator.cli.explanation import explain as explained
from paceline_operator.cli.guard import guarded
from paceline_operator.cli.plain_text import one_line
from paceline_operator.cli.replay import replay as replayed
from paceline_operator.cli.service import Service, connected
from paceline_operator.cli.watching import looks
from paceline_operator.cli.what_if.command import what_if
from paceline_operator.cli.wording import utc_now

UNLIMITED = 10_000
DIFFERS = 1

app = typer.Typer(
    name="kubectl-paceline",
    help="What Paceline's autopilot sees, and why it moves or holds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(help="Name of the InferenceService.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace; the context's own by default.")
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Keep showing it, every 2 s.")]


@app.command()
def status(
    name: Name,
    namespace: Namespace = None,
    context: Context = None,
    *,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Objectives against targets, live knobs, replicas and the last decision."""
    _run(_status(name, namespace, context, as_json=as_json, watch=watch))


@app.command()
def explain(
    name: Name, namespace: Namespace = None, context: Context = None, *, as_json: AsJson = False
) -> None:
    """In sentences, knob by knob: measured, considered, binding, next; and what moves brought."""
    _run(_explain(name, namespace, context, as_json=as_json))


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A file of recorded decisions: decisions.jsonl.")],
) -> None:
    """Makes recorded decisions again, without a cluster; exits 1 where one differs by a byte.

    What cannot be read exits 2.
    """
    count, differing = 0, 0
    with guarded(UNANSWERED):
        for said in replayed(file, _noted):
            count += 1
            if said is not None:
                differing += 1
                sys.stdout.write(f"{one_line(said)}\n")
        said = f"{differing} of {count} decisions differ" if differing else f"ok {count} decisions"
        sys.stdout.write(f"replay: {said}\n")
    if differing:
        raise typer.Exit(DIFFERS)


app.command(name="what-if")(what_if)


def _noted(text: str) -> None:
    """Beside the answer, which scripts may read."""
    sys.stderr.write(f"note: {one_line(text)}\n")


async def _status(
    name: str, namespace: str | None, context: str | None, *, as_json: bool, watch: bool
) -> None:
    if watch:
        seen = looks(name, namespace, context)
        await (_watch_json if as_json else _watch)(seen)
        return
    async with connected(namespace, context) as reader:
        service = await reader.read(name)
    if as_json:
        _print_json(document.status_document(service))
    else:
        _console().print(status_view.render(service, utc_now()))


async def _watch(seen: AsyncIterator[Service]) -> None:
    """Shows the object again and again until interrupted."""
    console = _console()
    if not console.is_interactive:
        await _watch_in_turn(seen, console)
        return
    first = await anext(seen)
    with Live(status_view.render(first, utc_now()), console=console) as live:
        async for service in seen:
            live.update(status_view.render(service, utc_now()))


async def _watch_in_turn(seen: AsyncIterator[Service], console: Console) -> None:
    """The same, one view below the other: what cannot be drawn over would be shown at the end."""
    async for service in seen:
        console.print(status_view.render(service, utc_now()))
        console.print()


async def _watch_json(seen: AsyncIterator[Service]) -> None:
    """The same, one document a look."""
    async for service in seen:
        _print_json(document.status_document(service))


async def _explain(name: str, namespace: str | None, context: str | None, *, as_json: bool) -> None:
    async with connected(namespace, context) as reader:
        service = await reader.read(name)
    found = explained(service, utc_now())
    if as_json:
        _print_json(document.explanation_document(service, found))
    else:
        console = _console()
        console.print(
            found.text(), highlight=False, markup=False, soft_wrap=not console.is_terminal
        )


def _run(work: Coroutine[Any, Any, None]) -> None:
    with guarded():
        asyncio.run(work)


def _print_json(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
    sys.stdout.flush()


def _console() -> Console:
    """A terminal's own width; no limit where output goes into a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=UNLIMITED)
