"""A real Prometheus for tests, with a past that was written into its store before it began."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.setup.prometheus import TOOL
from tests.support.prometheus_server import prometheus


@dataclass(frozen=True, slots=True)
class Scraped:
    """A series as it was scraped.

    Attributes:
        family: OpenMetrics family, a counter's without `_total`.
        kind: Its type.
        name: Of the sample.
        labels: Its labels.
        points: Moment and value, in order of time.
    """

    family: str
    kind: str
    name: str
    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]


@contextmanager
def prometheus_past(past: Iterable[Scraped]) -> Iterator[str]:
    """Starts a server that knows this past and scrapes nothing; gives its address."""
    with tempfile.TemporaryDirectory(prefix="paceline-prometheus-") as place:
        directory = Path(place)
        _write_blocks(directory, _exposition(past))
        with prometheus(directory, {}) as url:
            yield url


def _write_blocks(directory: Path, text: str) -> None:
    """Into where the server will look for them."""
    assert TOOL.exists(), f"no {TOOL}: run `python3 -m e2e.setup prometheus`"
    file = directory / "past.txt"
    file.write_text(text)
    done = subprocess.run(
        [str(TOOL), "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(file),
         str(directory / "data")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _exposition(past: Iterable[Scraped]) -> str:
    """OpenMetrics text: families together, each series' samples in order of time."""
    families: dict[tuple[str, str], list[Scraped]] = {}
    for series in past:
        families.setdefault((series.family, series.kind), []).append(series)
    lines = []
    for (family, kind), members in families.items():
        lines.append(f"# TYPE {family} {kind}")
        for series in members:
            labels = ",".join(f'{key}="{value}"' for key, value in series.labels.items())
            lines += [
                f"{series.name}{{{labels}}} {value!r} {moment:.3f}"
                for moment, value in series.points
            ]
    return "\n".join([*lines, "# EOF"]) + "\n"
