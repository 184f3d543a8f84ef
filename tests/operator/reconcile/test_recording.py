"""Files of bounded size, on disks that may be full."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from paceline_operator.autopilot import record
from paceline_operator.autopilot.pilot import step
from paceline_operator.autopilot.record import Asked, Replay, Writer
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.reconcile.recording import (
    FILE,
    FILE_BEFORE,
    MOST_FILES,
    QUEUED,
    RETRY_S,
    RecordFile,
    ThreadRecorder,
)
from tests.operator.autopilot.build import auto, fleet, window


def asked(number: int) -> Asked:
    now_s = 1000.0 + 5 * number
    slices = tuple(window(at_s, at_s + 5.0) for at_s in range(900, 1000 + 5 * number, 5))
    given = auto(), fleet(now_s=now_s, slices=slices), Memory()
    return Asked(
        policy=given[0], fleet=given[1], memory=given[2], now_s=now_s,
        tick=step(*given, now_s),
    )  # fmt: skip


def replayed(path: Path) -> int:
    replay, count = Replay(), 0
    for line in path.read_text().splitlines():
        assert replay.again(line)[1] == line
        count += 1
    return count


def files(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def test_all_files_together_stay_within_their_size(tmp_path: Path) -> None:
    most_bytes = 60_000
    file = RecordFile(tmp_path / "made" / "here", most_bytes)
    for number in range(40):
        assert file.append(f"default/{number % 3}", asked(number))
        sizes = [p.stat().st_size for p in (tmp_path / "made" / "here").iterdir()]
        assert sum(sizes) <= most_bytes
    file.close()
    names = files(tmp_path / "made" / "here")
    assert names == sorted([FILE, FILE_BEFORE])
    found = [replayed(tmp_path / "made" / "here" / name) for name in names]
    assert min(found) >= 1
    assert sum(found) < 40


def test_what_is_larger_than_a_file_is_left_out_and_nothing_leans_on_it(tmp_path: Path) -> None:
    file = RecordFile(tmp_path, 2000)
    assert not file.append("default/a", asked(1))
    file.close()
    assert (tmp_path / FILE).read_bytes() == b""
    roomy = RecordFile(tmp_path, 100_000)
    assert roomy.append("default/a", asked(2))
    assert replayed(tmp_path / FILE) == 1


def test_an_object_that_is_too_large_takes_no_room_from_the_others(tmp_path: Path) -> None:
    full = len(Writer().line("default/b", asked(0)))
    file = RecordFile(tmp_path, 2 * (3 * full))
    for _ in range(20):
        assert not file.append("default/a", asked(200))
        assert file.append("default/b", asked(0))
    assert [replayed(tmp_path / name) > 1 for name in files(tmp_path)] == [True, True]


def test_an_object_that_grows_too_large_is_left_out_until_the_next_file(tmp_path: Path) -> None:
    small, large = asked(0), asked(200)
    file = RecordFile(tmp_path, 2 * (len(Writer().line("default/a", small)) + 500))
    assert file.append("default/a", small)
    assert not file.append("default/a", large)
    assert not file.append("default/a", small)
    assert files(tmp_path) == [FILE]
    assert replayed(tmp_path / FILE) == 1
    assert file.append("default/b", small)
    assert file.append("default/a", small)
    assert files(tmp_path) == sorted([FILE, FILE_BEFORE])
    assert [replayed(tmp_path / name) for name in files(tmp_path)] == [1, 1]


def test_what_is_too_large_is_counted_and_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = Counter("lost", "Lost.", registry=CollectorRegistry())
    recorder = ThreadRecorder(RecordFile(tmp_path, 2000), lost, lambda: 0.0)
    for number in range(3):
        recorder.note("default/a", asked(number))
    recorder.end(20.0)
    assert lost._value.get() == 3
    told = [r.message for r in caplog.records if "default/a" in r.message]
    assert told == [
        "decisions of default/a are larger than half of recording.maxMegabytes and are not all "
        "recorded: raise it"
    ]


def test_a_new_process_keeps_what_was_recorded_for_as_long_as_it_fits(tmp_path: Path) -> None:
    """The same memory and measurements as the line before: a file that went on would lean."""
    for _ in range(12):
        file = RecordFile(tmp_path, 400_000)
        file.append("default/a", asked(1))
        file.append("default/a", asked(2))
        file.close()
    assert len(files(tmp_path)) == 12
    assert [replayed(tmp_path / name) for name in files(tmp_path)] == [2] * 12


def test_of_many_starts_the_newest_are_kept_within_the_size(tmp_path: Path) -> None:
    size, most_bytes = len(Writer().line("default/a", asked(1))) + 1, 60_000
    for number in range(40):
        file = RecordFile(tmp_path, most_bytes)
        file.append("default/a", asked(number))
        file.close()
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= most_bytes
    newest = (tmp_path / FILE).read_text()
    assert newest == Writer().line("default/a", asked(39)) + "\n"
    assert (tmp_path / FILE_BEFORE).read_text() == Writer().line("default/a", asked(38)) + "\n"
    assert 2 < len(files(tmp_path)) <= most_bytes // size


def test_a_file_that_somebody_took_away_leaves_the_others(tmp_path: Path) -> None:
    for number in (3, 4, 9):
        (tmp_path / f"decisions.{number}.jsonl").write_text(f"{number}\n")
    for name in (FILE, "else.jsonl", "decisions.0.jsonl"):
        (tmp_path / name).write_text(f"{name}\n")
    file = RecordFile(tmp_path, 100_000)
    file.append("default/a", asked(1))
    file.close()
    found = {each.name: each.read_text() for each in tmp_path.iterdir() if each.name != FILE}
    assert found == {
        "else.jsonl": "else.jsonl\n", "decisions.0.jsonl": "decisions.0.jsonl\n",
        FILE_BEFORE: f"{FILE}\n", "decisions.4.jsonl": "3\n", "decisions.5.jsonl": "4\n",
        "decisions.10.jsonl": "9\n",
    }  # fmt: skip


def test_there_are_never_more_than_so_many_files(tmp_path: Path) -> None:
    for number in range(1, 200):
        (tmp_path / f"decisions.{number}.jsonl").write_text("x\n")
    RecordFile(tmp_path, 100_000).append("default/a", asked(1))
    assert len(files(tmp_path)) <= MOST_FILES + 1


def test_a_full_disk_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RecordFile(tmp_path, 200_000)
    file.append("default/a", asked(0))
    write = os.write
    with monkeypatch.context() as patch:
        taken = iter((100,))

        def full(to: int, data: bytes) -> int:
            left = next(taken, 0)
            if not left:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(to, data[:left])

        patch.setattr("os.write", full)
        with pytest.raises(OSError, match="No space left"):
            file.append("default/a", asked(1))
    assert replayed(tmp_path / FILE) == 1
    file.append("default/a", asked(2))
    assert replayed(tmp_path / FILE) == replayed(tmp_path / FILE_BEFORE) == 1


def test_a_decision_that_makes_no_line_is_leant_on_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RecordFile(tmp_path, 200_000)
    file.append("default/a", asked(0))
    for error in (TypeError, ValueError, RecursionError):
        with monkeypatch.context() as patch:
            patch.setattr(record, "_text", _failing(error))
            with pytest.raises(error):
                file.append("default/a", asked(1))
    file.append("default/a", asked(2))
    assert replayed(tmp_path / FILE) == 2
    assert not (tmp_path / FILE_BEFORE).exists()


def _failing(error: type[Exception]) -> Callable[[object], str]:
    def fail(_: object) -> str:
        raise error

    return fail


def test_whatever_goes_wrong_with_one_ends_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, clock = Counter("lost", "Lost.", registry=CollectorRegistry()), [0.0]
    recorder = ThreadRecorder(RecordFile(tmp_path, 200_000), lost, lambda: clock[0])
    with monkeypatch.context() as patch:
        patch.setattr(record, "_text", _failing(RecursionError))
        recorder.note("default/a", asked(0))
        until(lambda: lost._value.get() == 1)
    clock[0] = 2 * RETRY_S
    recorder.note("default/a", asked(1))
    recorder.end(20.0)
    assert replayed(tmp_path / FILE) == 1


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20.0
    while not holds() and time.monotonic() < end_s:
        time.sleep(0.01)
    assert holds()


def test_a_disk_that_takes_nothing_is_told_of_once_and_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lost = Counter("lost", "Lost.", registry=CollectorRegistry())
    count = lost._value.get
    clock, blocked = [0.0], tmp_path / "place"
    blocked.write_text("a file where a directory should be")
    recorder = ThreadRecorder(RecordFile(blocked, 100_000), lost, lambda: clock[0])
    for number in range(3):
        recorder.note("default/a", asked(number))
    until(lambda: count() == 3)
    clock[0] = RETRY_S + 1
    recorder.note("default/a", asked(3))
    until(lambda: count() == 4)
    told = [r for r in caplog.records if "not recorded" in r.message]
    assert len(told) == 1
    blocked.unlink()
    clock[0] = 3 * RETRY_S
    recorder.note("default/a", asked(4))
    recorder.end(20.0)
    assert replayed(blocked / FILE) == 1
    assert [r.message for r in caplog.records][-1] == "decisions are recorded again"


def test_a_disk_that_hangs_costs_records_and_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, write = threading.Event(), os.write

    def hang(to: int, data: bytes) -> int:
        going.wait(60.0)
        return write(to, data)

    monkeypatch.setattr("os.write", hang)
    lost = Counter("lost", "Lost.", registry=CollectorRegistry())
    recorder = ThreadRecorder(RecordFile(tmp_path, 8 << 20), lost, time.monotonic)
    one = asked(0)
    began_s = time.monotonic()
    for _ in range(QUEUED + 50):
        recorder.note("default/a", one)
    assert time.monotonic() - began_s < 5.0
    assert lost._value.get() >= 40
    going.set()
    recorder.end(30.0)
    assert replayed(tmp_path / FILE) >= QUEUED
