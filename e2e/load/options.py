"""The command line: flags to a plan and a target."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from e2e.load import arrivals
from e2e.load.arrivals import Segment
from e2e.load.mix import FORM, NAMED, Kind, MixError, parse_mix
from e2e.load.plan import Plan, PlanError, make_plan
from e2e.load.sender import Target

PLANS = ("steady", "step", "ramp", "burst", "stages")
API_KEY = "PACELINE_API_KEY"
"""Variable with the bearer token."""
DESCRIPTION = """\
Sends seeded, open-loop load to an OpenAI-compatible endpoint: each request leaves when it
is due, on a connection of its own, whatever became of the others. Ends by itself; SIGUSR1
lets it send nothing further and wait for what is in flight, SIGTERM or Ctrl-C ends it
at once, with what was in flight reported as cancelled.

With --json standard output holds one JSON object a line: first {"start": ...} with the
phases' times, then one record a request as it ends (id, phase, kind, scheduled_s, sent_s,
ended_s: Unix seconds; ttft_ms; gaps_ms: list of ITL; prompt_tokens, tokens, status;
outcome: ok | refused (429 with Retry-After) | lost (anything else but a full reply) |
cancelled; error), last {"summary": ...}. Without it only the summary, for people.
Progress goes to standard error.
"""
EPILOG = """\
plans, from --rate R (requests/s) and --factor F:
  steady  R for --duration
  step    R for --before, F x R for --duration, R for --after
  ramp    R rising to F x R over --duration
  burst   R, and each --every seconds F x R for --burst seconds, for --duration
  stages  one level after the other, as --stages names them: PHASE:LEVEL:SECONDS[,…], LEVEL x R each
"""


def parser() -> argparse.ArgumentParser:
    """The flags; `--help` is their documentation."""
    flags = argparse.ArgumentParser(
        prog="python -m e2e.load",
        description=DESCRIPTION,
        epilog=EPILOG + _mixes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_target(flags.add_argument_group("where to"))
    _add_plan(flags.add_argument_group("how much"))
    _add_content(flags.add_argument_group("of what"))
    flags.add_argument("--json", action="store_true", help="records as JSON lines on stdout")
    return flags


def _mixes() -> str:
    lines = [f"  {name:24s} {text}" for name, text in NAMED.items()]
    return "\n".join(["", f"mixes, or {FORM}:", *lines])


def _add_target(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--url", required=True, help="base URL, without /v1")
    group.add_argument("--model", required=True, help="served model name")
    group.add_argument("--route", choices=("chat", "completions"), default="chat")
    group.add_argument(
        "--api-key-file",
        type=_first_line,
        help=f"file with the bearer token; without, {API_KEY} in the environment is taken",
    )
    group.add_argument(
        "--timeout", type=_positive, default=300.0, help="seconds until a request is lost (300)"
    )


def _add_plan(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--plan", choices=PLANS, default="steady")
    group.add_argument("--seed", type=int, default=1, help="of everything random (1)")
    group.add_argument("--rate", type=_positive, required=True, help="requests per second")
    group.add_argument("--duration", type=_positive, help="seconds; of all plans but stages")
    group.add_argument("--factor", type=_positive, default=3.0, help="see plans (3)")
    group.add_argument("--before", type=_seconds, default=60.0, help="step: seconds before (60)")
    group.add_argument("--after", type=_seconds, default=60.0, help="step: seconds after (60)")
    group.add_argument("--every", type=_positive, default=30.0, help="burst: period (30)")
    group.add_argument("--burst", type=_positive, default=5.0, help="burst: length (5)")
    group.add_argument("--stages", type=_stages, help="stages: see below")
    group.add_argument("--evenly", action="store_true", help="even spacing instead of Poisson")
    group.add_argument(
        "--max-requests", type=int, default=10_000, help="refuses a larger plan (10000)"
    )


def _add_content(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--mix", type=_mix, default="chats", help="see below (chats)")
    group.add_argument(
        "--vocabulary",
        choices=("words", "bytes"),
        default="words",
        help="how prompt tokens are counted: words of a model, bytes of a simulated device",
    )
    group.add_argument(
        "--streamed", type=_share, default=1.0, help="share of streamed requests (1)"
    )
    group.add_argument(
        "--respect-eos", action="store_true", help="answers may end before their token limit"
    )


def _mix(text: str) -> tuple[Kind, ...]:
    try:
        return parse_mix(text)
    except MixError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _stages(text: str) -> tuple[tuple[str, float, float], ...]:
    """Phase, level and seconds of each stage."""
    parts = [part.split(":") for part in text.split(",")]
    if any(len(part) != 3 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not PHASE:LEVEL:SECONDS[,…]")
    return tuple((phase, _positive(level), _positive(seconds)) for phase, level, seconds in parts)


def _first_line(path: str) -> str:
    """A secret in a file: as an argument everybody on the machine could read it."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {reason}") from None
    if not lines or not lines[0].strip():
        raise argparse.ArgumentTypeError(f"{path} begins with an empty line, not with a token")
    return lines[0].strip()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return value


def _seconds(text: str) -> float:
    value = _number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is below zero")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def segments_of(flags: argparse.Namespace) -> tuple[Segment, ...]:
    """The load that flags ask for.

    Raises:
        PlanError: Bursts would not fit into their period, or the plan's lengths are not named.
    """
    needed = "stages" if flags.plan == "stages" else "duration"
    if getattr(flags, needed) is None:
        raise PlanError(f"--plan {flags.plan} needs --{needed}")
    match flags.plan:
        case "stages":
            return arrivals.stages(flags.rate, flags.stages)
        case "step":
            return arrivals.step(
                flags.rate, flags.factor, flags.before, flags.duration, flags.after
            )
        case "ramp":
            return arrivals.ramp(flags.rate, flags.factor, flags.duration)
        case "burst":
            if flags.burst >= flags.every:
                raise PlanError(f"--burst {flags.burst:g} must be below --every {flags.every:g}")
            return arrivals.burst(
                flags.rate, flags.factor, flags.duration, flags.every, flags.burst
            )
        case _:
            return arrivals.steady(flags.rate, flags.duration)


def read(arguments: Sequence[str]) -> tuple[Plan, Target, bool]:
    """Plan, target and whether records are wanted; a wrong flag exits with code 2."""
    flags = parser().parse_args(arguments)
    try:
        plan = make_plan(
            segments_of(flags),
            flags.mix,
            seed=flags.seed,
            max_requests=flags.max_requests,
            evenly=flags.evenly,
            streamed_share=flags.streamed,
        )
    except PlanError as error:
        parser().error(str(error))
    target = Target(
        url=flags.url,
        model=flags.model,
        route=flags.route,
        vocabulary=flags.vocabulary,
        seed=flags.seed,
        ignore_eos=not flags.respect_eos,
        timeout_s=flags.timeout,
        api_key=flags.api_key_file or os.environ.get(API_KEY) or None,
    )
    return plan, target, bool(flags.json)
