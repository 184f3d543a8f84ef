"""What hindsight knows of each load: found by the full run, kept beside the code.

Every baseline gets the static budget that suits the load best, and is compared at the cheapest
of its settings that attains as much as we do: so each is met at its best.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

USUAL_S: Final = 120
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
        settings: Place of each baseline's cheapest setting that attains what we do, by cold
            start; that which attains most where none does.
        best: Baselines by their replica-hours at those settings, the cheapest first, by cold
            start; those that attain what we do before those that do not.
    """

    budget: int
    peak_replicas: int
    first_replicas: int = 1
    mean_replicas: int = 1
    headroom: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    best: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def settings_at(self, cold_start_s: int) -> Mapping[str, int]:
        """Settings for a cold start: until its own are found, those of the usual one."""
        return self.settings.get(f"{cold_start_s}") or self.settings.get(f"{USUAL_S}", {})

    def best_at(self, cold_start_s: int) -> tuple[str, ...]:
        """The best for a cold start, as with `settings_at`."""
        return self.best.get(f"{cold_start_s}") or self.best.get(f"{USUAL_S}", ())

    def lacking(self, cold_starts_s: Iterable[int]) -> list[int]:
        """Those of the cold starts whose own settings were not found yet."""
        return [each for each in cold_starts_s if f"{each}" not in self.settings]


def load_tunings(path: Path = FILE) -> dict[str, Tuning]:
    """All that were found so far, by load; none where there is no file.

    Raises:
        TuningError: The file is damaged.
    """
    try:
        stored = json.loads(path.read_text())
        return {name: _read(found) for name, found in stored.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TuningError(f"{path}: {error}; remove it and run `make conformance-full`") from error


def _read(found: Mapping[str, Any]) -> Tuning:
    settings, best = found["settings"], found["best"]
    if isinstance(best, list):  # As it was written while settings were of the usual start only.
        settings, best = {f"{USUAL_S}": settings}, {f"{USUAL_S}": best}
    by_start = {cold_start: tuple(names) for cold_start, names in best.items()}
    return Tuning(**{**found, "settings": settings, "best": by_start})


def save_tunings(tunings: Mapping[str, Tuning], path: Path = FILE) -> None:
    """Writes them, sorted by load."""
    stored = {name: asdict(tunings[name]) for name in sorted(tunings)}
    path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
