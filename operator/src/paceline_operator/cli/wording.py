"""Values of a status in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from paceline_operator.api.choice import SloVerdict
from paceline_operator.api.status import DecisionStatus, SloStatus

NONE = "-"


def latency(value_ms: float | None) -> str:
    """`43 ms`, `2.10 s`, or a dash."""
    if value_ms is None:
        return NONE
    if value_ms >= 1e4:
        return f"{value_ms / 1e3:.1f} s"
    if value_ms >= 1e3:
        return f"{value_ms / 1e3:.2f} s"
    return f"{value_ms:.0f} ms" if value_ms >= 9.95 else f"{value_ms:.1f} ms"


def figures(found: object) -> dict[str, float]:
    """The numbers of a map that the definition leaves free: another version may keep others."""
    if not isinstance(found, Mapping):
        return {}
    return {
        str(name): value
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def share(percent: float | None) -> str:
    """`97.3 %`, or a dash."""
    return NONE if percent is None else f"{percent:.1f} %"


def attained(slo: SloStatus) -> str:
    """`97.3 %`, or with what is left open: `97.3 % (91.0 to 99.0)`."""
    low, high = slo.attainment_low_percent, slo.attainment_high_percent
    exact = share(slo.attainment_percent)
    return exact if low is None or high is None else f"{exact} ({low:.1f} to {high:.1f})"


def burns(slo: SloStatus) -> str:
    """Error budget burn over one hour and six: `2.4/0.8`, or a dash."""
    rates = (slo.burn_hour, slo.burn_six_hours)
    return "/".join(NONE if rate is None else f"{rate:.1f}" for rate in rates)


def edges(slo: SloStatus) -> str | None:
    """Why a share is no single figure, and what would make it one; None where it is one."""
    if not slo.edges_ms:
        return None
    near = " and ".join(latency(each) for each in slo.edges_ms)
    noun = "edge" if len(slo.edges_ms) == 1 else "edges"
    return (
        f"the engine counts in buckets and {latency(slo.target_ms)} lies beside the {noun} {near}: "
        "a target on an edge is counted exactly"
    )


def number(value: float | None) -> str:
    """A count, or a dash."""
    return NONE if value is None else f"{value:.0f}"


def counted(number: int, noun: str) -> str:
    """`1 sample`, `2 samples`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def instant(time: str) -> datetime:
    """A status time."""
    return datetime.fromisoformat(time.replace("Z", "+00:00"))


def clock(time: str, now: datetime) -> str:
    """`14:05:20 UTC`, with the date where that is another day."""
    then = instant(time).astimezone(UTC)
    is_today = then.date() == now.astimezone(UTC).date()
    return f"{then:%H:%M:%S} UTC" if is_today else f"{then:%Y-%m-%d %H:%M:%S} UTC"


def age(time: str | None, now: datetime) -> str:
    """How long ago a status time was: `12s`, `3m`, `2h`; a dash for none."""
    if time is None:
        return NONE
    seconds = (now - instant(time)).total_seconds()
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def utc_now() -> datetime:
    """The clock of the machine the plug-in runs on."""
    return datetime.now(UTC)


def objective(slo: SloStatus) -> str:
    """`first-token (TTFT p95)`."""
    tier = "" if slo.tier == "interactive" else f", {slo.tier.value} tier"
    return f"{slo.name} ({slo.metric.value} p{slo.percentile}{tier})"


def verdict(slo: SloStatus) -> SloVerdict | None:
    """The operator's own; None without samples.

    An operator of before gave none: its figures show what is held, and prove nothing missed.
    """
    if slo.verdict is not None or slo.attainment_percent is None:
        return slo.verdict
    low = slo.attainment_low_percent
    least = slo.attainment_percent if low is None else low
    return SloVerdict.HELD if least >= slo.percentile else SloVerdict.OPEN


def said(found: SloVerdict | None) -> str:
    """`held`, `missed`, `open`, or a dash."""
    return NONE if found is None else found.value.lower()


def decided(decision: DecisionStatus) -> str:
    """`budget Lower (ItlPrefillBound, limited by AtFloor)`."""
    limit = f", limited by {decision.guard}" if decision.guard else ""
    return f"{decision.knob} {decision.action} ({decision.reason}{limit})"
