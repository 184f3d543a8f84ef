"""Arguments of `what-if`, and what it prints."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline_operator.cli import duration, progress
from paceline_operator.cli.errors import CliError
from paceline_operator.cli.exit_code import UNANSWERED
from paceline_operator.cli.guard import guarded
from paceline_operator.cli.what_if import comparison_view
from paceline_operator.cli.what_if.comparison_document import comparison_document
from paceline_operator.cli.what_if.run import Asked, compare, gather
from paceline_operator.simulator.what_if.comparison import Comparison
from paceline_operator.simulator.what_if.engine_facts import Said

DEFAULT_LAST = "24h"
WIDTH = 160
MISSED = 1
_ENGINES = "What is taken of the engines"
_OUTPUT = "Output"

File = Annotated[Path, typer.Option("--file", "-f", help="Manifest of the new spec.")]
Trace = Annotated[
    Path | None,
    typer.Option(help="Load: a .csv or .csv.gz with arrival_s,prompt_tokens,output_tokens"
                      "[,prefix_blocks_512][,tier]."),
]  # fmt: skip
Server = Annotated[str | None, typer.Option(metavar="URL", help="Load: what this server kept.")]
TokenFile = Annotated[
    Path | None,
    typer.Option("--prometheus-token-file", metavar="FILE", help="Bearer token for the server."),
]
CaFile = Annotated[
    Path | None,
    typer.Option("--prometheus-ca-file", metavar="FILE", help="Authorities to trust, PEM."),
]
Last = Annotated[str | None, typer.Option(help=f"How much of its past [default: {DEFAULT_LAST}].")]
Selector = Annotated[
    str | None,
    typer.Option(help="Label matchers of the engines' series; by default namespace and pod."),
]
Old = Annotated[
    str | None,
    typer.Option(metavar="FILE|none", help="Manifest of the old spec; by default the live object."),
]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Of the live object.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
ProfileName = Annotated[
    str | None, typer.Option("--profile", rich_help_panel=_ENGINES, help="Step-time profile.")
]
KvTokens = Annotated[
    int | None,
    typer.Option(min=16, rich_help_panel=_ENGINES, help="Tokens one replica's KV cache holds."),
]
ColdStart = Annotated[
    str | None,
    typer.Option(rich_help_panel=_ENGINES, help="From a replica ordered to one that serves: 90s."),
]
Scale = Annotated[
    float, typer.Option(min=0.01, max=1000, help="Times the load, by superposed copies.")
]
Seeds = Annotated[int, typer.Option(min=1, max=100, help="How often each spec is played.")]
AsJson = Annotated[bool, typer.Option("--json", rich_help_panel=_OUTPUT, help="Print JSON.")]
AsMarkdown = Annotated[
    bool,
    typer.Option("--markdown", rich_help_panel=_OUTPUT, help="Print a pull request's comment."),
]
ExitCode = Annotated[
    bool,
    typer.Option(
        "--exit-code",
        rich_help_panel=_OUTPUT,
        help="Exit 1 where the new spec misses an objective, or one has no samples.",
    ),
]


def what_if(  # noqa: PLR0913 - one for each flag
    *,
    file: File,
    trace: Trace = None,
    prometheus: Server = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    last: Last = None,
    selector: Selector = None,
    old: Old = None,
    namespace: Namespace = None,
    context: Context = None,
    profile: ProfileName = None,
    kv_tokens: KvTokens = None,
    cold_start: ColdStart = None,
    scale: Scale = 1.0,
    seeds: Seeds = 3,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    exit_code: ExitCode = False,
) -> None:
    """Play a load to the old and the new spec: objectives, replica-hours, cost and moves.

    What cannot be played exits 2.
    """
    with guarded(UNANSWERED):
        if as_json and as_markdown:
            raise CliError("--json and --markdown exclude each other; name one")
        if (trace is None) == (prometheus is None):
            raise CliError("the load comes from --trace or from --prometheus; name one of them")
        for flag, value in (
            ("--last", last),
            ("--selector", selector),
            ("--prometheus-token-file", token_file),
            ("--prometheus-ca-file", ca_file),
        ):
            if value is not None and prometheus is None:
                raise CliError(f"{flag} is for --prometheus: a trace is played whole")
        asked = Asked(
            new=file,
            old=old,
            namespace=namespace,
            context=context,
            trace=trace,
            prometheus=prometheus,
            token_file=token_file,
            ca_file=ca_file,
            last_s=duration.seconds(last or DEFAULT_LAST, "--last"),
            selector=selector,
            scale=scale,
            seeds=seeds,
            said=Said(
                profile=profile,
                kv_tokens=kv_tokens,
                cold_start_s=None if cold_start is None
                else duration.seconds(cold_start, "--cold-start"),
            ),
        )  # fmt: skip
        gathered = asyncio.run(gather(asked, time.time()))
        with progress.shown() as told:
            comparison = compare(gathered, asked, told)
        _print(comparison, as_json=as_json, as_markdown=as_markdown)
    if exit_code and (comparison.new.missed or comparison.new.unproven):
        raise typer.Exit(MISSED)


def _print(comparison: Comparison, *, as_json: bool, as_markdown: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(comparison_document(comparison), indent=2) + "\n")
    elif as_markdown:
        sys.stdout.write(comparison_view.markdown(comparison))
    else:
        console = Console()
        shown = console if console.is_terminal else Console(width=WIDTH)
        shown.print(comparison_view.render(comparison), highlight=False)
