from __future__ import annotations

import asyncio
import time

import pytest

from paceline_operator.reconcile.queue import WorkQueue


def queue() -> WorkQueue[str]:
    return WorkQueue(time.monotonic)


async def soon(work: WorkQueue[str], within_s: float = 1.0) -> str:
    return await asyncio.wait_for(work.get(), within_s)


async def test_a_key_asked_for_often_is_given_once() -> None:
    work = queue()
    for _ in range(5):
        work.add("a")
    assert await soon(work) == "a"
    work.done("a")
    assert len(work) == 0


async def test_the_earliest_time_asked_for_counts() -> None:
    work = queue()
    work.add("a", 60)
    work.add("a", 0)
    work.add("a", 60)
    assert await soon(work) == "a"


async def test_keys_come_in_the_order_they_are_due() -> None:
    work = queue()
    work.add("late", 0.02)
    work.add("early", 0.0)
    assert [await soon(work), await soon(work)] == ["early", "late"]


async def test_a_key_in_work_is_not_given_to_another_worker() -> None:
    work = queue()
    work.add("a")
    assert await soon(work) == "a"
    work.add("a")
    with pytest.raises(TimeoutError):
        await soon(work, 0.05)
    work.done("a")
    assert await soon(work) == "a"


async def test_every_waiting_worker_is_served() -> None:
    work = queue()
    workers = [asyncio.create_task(work.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in "abc":
        work.add(key)
    assert sorted(await asyncio.wait_for(asyncio.gather(*workers), 1)) == ["a", "b", "c"]


async def test_a_key_asked_for_while_all_wait_wakes_one() -> None:
    work = queue()
    work.add("far", 60)
    waiting = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add("near")
    assert await asyncio.wait_for(waiting, 1) == "near"


async def test_a_forgotten_key_is_not_given() -> None:
    work = queue()
    work.add("a")
    work.forget("a")
    with pytest.raises(TimeoutError):
        await soon(work, 0.05)


async def test_stuck_counts_waiting_keys_only() -> None:
    now = [0.0]
    work: WorkQueue[str] = WorkQueue(lambda: now[0])
    work.add("a")
    work.add("far", 60.0)
    now[0] = 7.0
    assert work.stuck_s() == 7.0
    assert await soon(work) == "a"
    assert work.stuck_s() == 0.0
    now[0] = 59.0
    assert work.stuck_s() == 0.0


async def test_many_that_are_late_one_after_the_other_are_not_stuck() -> None:
    """A process that began anew would find the same load, and never come to the last of them."""
    now = [0.0]
    work: WorkQueue[str] = WorkQueue(lambda: now[0])
    for key in "abcd":
        work.add(key)
    for taken in "abc":
        now[0] += 50.0
        assert work.stuck_s() == 50.0
        assert await soon(work) == taken
    now[0] += 130.0
    assert work.stuck_s() == 130.0


async def test_work_on_a_key_is_no_delay_of_it() -> None:
    """One pod that hangs would else make every engine be read less often."""
    now = [0.0]
    work: WorkQueue[str] = WorkQueue(lambda: now[0])
    work.add("a")
    assert await soon(work) == "a"
    work.add("a")
    now[0] = 9.0
    work.done("a")
    assert work.stuck_s() == 0.0
    now[0] = 9.5
    assert work.stuck_s() == 0.5
    assert await soon(work) == "a"
    assert work.latest_s() == 0.5


async def test_what_others_do_is_a_delay() -> None:
    now = [0.0]
    work: WorkQueue[str] = WorkQueue(lambda: now[0])
    work.add("a")
    now[0] = 4.0
    assert await soon(work) == "a"
    assert work.latest_s() == 4.0
    work.done("a")
    work.add("a", 1.0)
    now[0] = 6.0
    assert await soon(work) == "a"
    assert work.latest_s() == 1.0
