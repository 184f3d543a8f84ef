"""Writes the demo's report: one HTML file that stands alone, and the PNGs beside it."""

from __future__ import annotations

import base64
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import jinja2
import psutil

from e2e.demo.plot import Picture, draw
from e2e.verdict import Verdict

TEMPLATE = Path(__file__).with_name("report.html.j2")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """One line of a part's table, already in words."""

    name: str
    requests: int
    lost: int
    refused: int
    ttft: str
    itl: str
    ttft_p95: str
    itl_p95: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the demo as the report shows it."""

    key: str
    lead: str
    picture: Picture
    phases: Sequence[PhaseRow]


def host_line() -> str:
    """The machine in a few words."""
    memory_gb = psutil.virtual_memory().total / 2**30
    return f"{psutil.cpu_count()} cores, {memory_gb:.0f} GiB, {platform.platform(terse=True)}"


def write(parts: Sequence[Part], verdict: Verdict, folder: Path, made_at: datetime) -> Path:
    """Writes PNGs and `report.html` into `folder` and returns the report's path."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = [_shown(part, folder) for part in parts]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(TEMPLATE.read_text()).render(
        parts=shown,
        line=verdict.line,
        word=verdict.code.name.lower(),
        reasons=verdict.reasons,
        made_at=made_at.strftime("%Y-%m-%d %H:%M UTC"),
        host=host_line(),
    )
    path = folder / "report.html"
    path.write_text(page)
    return path


def _shown(part: Part, folder: Path) -> dict[str, object]:
    image = folder / f"{part.key}.png"
    draw(part.picture, image)
    started = part.picture.started_s
    return {
        "title": part.picture.title,
        "lead": part.lead,
        "phases": part.phases,
        "image": base64.b64encode(image.read_bytes()).decode(),
        "decisions": [
            {
                "second": f"{decision.at_s - started:.0f}",
                "knob": decision.knob,
                "action": decision.action,
                "reason": decision.reason,
                "message": decision.message,
            }
            for decision in part.picture.decisions
        ],
    }
