"""Numbers in the words of messages."""

from __future__ import annotations

from datetime import UTC, datetime


def ms(value: float) -> str:
    """A latency: `43 ms`, `2.1 s`."""
    if value == float("inf"):
        return "without end"
    return f"{value / 1e3:.1f} s" if value >= 1e3 else f"{value:.0f} ms"


def rps(value: float) -> str:
    """A request rate."""
    return f"{value:.2f} requests/s" if value < 10 else f"{value:.0f} requests/s"


def overload(offered: float, replicas: int, holds: float) -> str:
    """That more is asked for than any budget carries within the objectives."""
    return (
        f"{rps(offered)} came over two minutes, {replicas} x {rps(holds)} fit: no budget meets the "
        "objectives, only replicas help"
    )


def counted(number: int, noun: str) -> str:
    """`1 replica`, `3 replicas`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def no_objective(wanted: int) -> str:
    """Why there is nothing to steer by, `wanted` objectives of other tiers aside."""
    return "No objective of the interactive tier is set" if wanted else "No objective is set"


def clock(time_s: float, now_s: float) -> str:
    """A time of the day: `12:00 UTC`, with the date where that is another day."""
    then, now = datetime.fromtimestamp(time_s, UTC), datetime.fromtimestamp(now_s, UTC)
    return then.strftime("%H:%M UTC" if then.date() == now.date() else "%Y-%m-%d %H:%M UTC")


def second(time_s: float) -> str:
    """A time of the day to the second: `12:00:05 UTC`."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%H:%M:%S UTC")


def lowered(*, is_lowered: bool) -> str:
    """Who limits a mode, where the user does not."""
    return ": the installation allows no more (maxMode)" if is_lowered else ""
