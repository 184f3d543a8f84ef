"""What the live table learns from the generator's log."""

import pytest

from e2e.demo.follow import Followed, read
from e2e.demo.live import row_of
from e2e.load.record import Outcome, Record


def record(sent_s: float, ttft_ms: float, outcome: Outcome = Outcome.OK) -> Record:
    return Record(
        id=0,
        phase="p",
        kind="k",
        streamed=True,
        scheduled_s=sent_s,
        sent_s=sent_s,
        ended_s=sent_s + 1,
        ttft_ms=ttft_ms,
        gaps_ms=(ttft_ms / 10,),
        prompt_tokens=1,
        tokens=2,
        status=200,
        outcome=outcome,
    )


def test_the_rate_is_that_of_requests_sent_whether_ended_or_not() -> None:
    followed = Followed()
    assert followed.rate_rps == 0.0
    for line in ("load: 5 s sent=10/99 running=9", "load: 10 s sent=40/99 running=9"):
        followed.add(line)
    assert followed.rate_rps == pytest.approx(4.0)
    followed.add("load: 15 s sent=70/99 running=9")
    assert followed.rate_rps == pytest.approx(6.0)


def test_a_row_shows_what_ended_lately_and_all_that_was_lost() -> None:
    records = [record(0.0, 9000.0, Outcome.LOST), record(50.0, 100.0), record(51.0, 300.0)]
    row = row_of(records, elapsed_s=60.0, now_s=60.0, phase="p", rate_rps=1.0)
    assert (row.ttft_p95_ms, row.itl_p95_ms, row.lost) == (300.0, 30.0, 1)


def test_a_row_without_requests_shows_none() -> None:
    row = row_of([], elapsed_s=0.0, now_s=0.0, phase="p", rate_rps=0.0)
    assert row.ttft_p95_ms is None
    assert row.itl_p95_ms is None


class BrokenLog:
    """A Job whose log breaks off once in the middle."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.times = 0

    def follow(self) -> list[str]:
        self.times += 1
        return self.lines[:2] if self.times == 1 else self.lines

    def has_ended(self) -> bool:
        return self.times > 1


def test_a_log_that_breaks_off_is_read_again_and_nothing_counts_twice() -> None:
    job = BrokenLog([f"load: {5 * n} s sent={10 * n}/99 running=9" for n in (1, 2, 3, 4)])
    followed = Followed()
    read(job, followed, pause_s=0.0)
    assert (job.times, followed.sent[-1]) == (2, (20.0, 40))
    assert len(followed.sent) == 5
