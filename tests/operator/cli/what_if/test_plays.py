from __future__ import annotations

import pytest

from paceline_operator.cli.what_if.plays import TELL_EVERY_S, Play


class Desk:
    """Who listens, and a clock that is set."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, float]] = []
        self.now_s = 50.0

    def play(self, place: int) -> Play:
        return Play(
            lambda what, share: self.heard.append((what, share)),
            "new spec, seed 1 of 2",
            place=place,
            plays=4,
            length_s=1000.0,
            clock=lambda: self.now_s,
        )


@pytest.mark.parametrize(
    ("place", "time_s", "share"), [(0, 0.0, 0.0), (1, 500.0, 0.375), (3, 1500.0, 1.0)]
)
def test_a_play_is_a_part_of_the_whole(place: int, time_s: float, share: float) -> None:
    desk = Desk()
    desk.play(place)(time_s)
    assert desk.heard == [("new spec, seed 1 of 2", share)]


def test_nobody_is_told_more_often_than_a_few_times_a_second() -> None:
    desk = Desk()
    play = desk.play(0)
    for place in range(1000):
        desk.now_s = 50.0 + place * TELL_EVERY_S / 100
        play(float(place))
    assert [share for _, share in desk.heard] == [each / 40 for each in range(10)]
