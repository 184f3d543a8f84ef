"""What hindsight knows of each load: found by the full run, kept beside the code.

Every baseline gets the static budget that suits the load best, and is compared at the cheapest
of its settings that attains as much as we do: so each is met at its best.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = Path(__file__).parent / "tuning.json"


class TuningError(ValueError):
    """The file cannot be used; the text says how to make it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Of one load.

    Attributes:
        budget: Static token budget with which the fewest static replicas hold the objectives.
        peak_replicas: Those replicas: what must be bought without any autoscaling.
        first_replicas: What the load's first five minutes need by the model.
        mean_replicas: The same of the whole.
        headroom: Of the oracle, smallest with which it reaches 97 %, or its best, by cold start.
        settings: Place of each baseline's cheapest setting that attains what we do, at 120 s;
            the dearest where none does.
        best: Baselines by their replica-hours at those settings, the cheapest first; those that
            attain what we do before those that do not.
    """

    budget: int
    peak_replicas: int
    first_replicas: int = 1
    mean_replicas: int = 1
    headroom: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)
    best: tuple[str, ...] = ()


def load_tunings(path: Path = FILE) -> dict[str, Tuning]:
    """All that were found so far, by load; none where there is no file.

    Raises:
        TuningError: The file is damaged.
    """
    try:
        stored = json.loads(path.read_text())
        return {
            name: Tuning(**{**found, "best": tuple(found["best"])})
            for name, found in stored.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError) as error:
        raise TuningError(f"{path}: {error}; remove it and run `make conformance-full`") from error


def save_tunings(tunings: Mapping[str, Tuning], path: Path = FILE) -> None:
    """Writes them, sorted by load."""
    stored = {name: asdict(tunings[name]) for name in sorted(tunings)}
    path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
