"""Times of the calendar that come again: when minimums are raised, when moves are held."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paceline_operator.api.base import Model, Name
from paceline_operator.api.choice import FreezeScope
from paceline_operator.api.rule import Reason, Rule, rules

Cron = Annotated[str, Field(min_length=9, max_length=256, pattern=r"^[^\s@]+( [^\s@]+){4}$")]
"""Five fields; what they say is checked by the operator, which tells by `Stalled`."""
TimeZone = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$")]


class TimeWindow(Model):
    """A time that begins by the clock of a time zone, and comes again."""

    model_config = rules(
        Rule(
            "has(self.end) != has(self.durationSeconds)",
            "say when it ends: by end (a cron expression) or by durationSeconds, not both",
            field_path=".start",
            reason=Reason.REQUIRED,
        ),
    )

    name: Name
    """Name, unique in its list; decisions and conditions call it so."""
    start: Cron
    """When it begins: minute, hour, day of month, month, day of week, such as `0 8 * * 1-5`."""
    end: Cron | None = None
    """When it ends: the first such time after its start."""
    duration_seconds: Annotated[int, Field(ge=60, le=2678400)] | None = None
    """How long it lasts, in seconds that pass, whatever clocks are set to meanwhile."""
    time_zone: TimeZone = "UTC"
    """Time zone of both expressions, a name of the IANA database such as Europe/Berlin (UTC
    where absent). A time that a change of clocks leaves out comes right after it; one that it
    repeats counts once."""


class Schedule(TimeWindow):
    """A higher minimum of replicas for a time."""

    min_replicas: Annotated[int, Field(ge=1, le=1024)]
    """Fewest replicas while it lasts. They are ordered one measured cold start ahead, so that they
    serve when it begins."""


class FreezeWindow(TimeWindow):
    """A time in which moves are held."""

    holds: FreezeScope = FreezeScope.ALL
    """All (default): no live knob and no replica count is moved. In: no replica is given back.
    Manual values, limits, schedules and knobs outside of their limits still apply."""
