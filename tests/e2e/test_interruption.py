"""Ctrl-C, SIGTERM and SIGHUP alike: raised once, held off, or kept until a block has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from e2e import interruption

EACH = pytest.mark.parametrize("number", interruption.NUMBERS)


@pytest.fixture(autouse=True)
def _handlers_are_put_back() -> Iterator[None]:
    before = [signal.getsignal(number) for number in interruption.NUMBERS]
    yield
    assert [signal.getsignal(number) for number in interruption.NUMBERS] == before


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@EACH
def test_each_is_an_interrupt(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.raised():
        send(number)


@EACH
def test_a_second_one_does_not_cut_the_clean_up_short(number: signal.Signals) -> None:
    cleaned = []

    def run() -> None:
        try:
            send(signal.SIGINT)
        finally:
            send(number)
            cleaned.append(number)

    with pytest.raises(KeyboardInterrupt), interruption.raised():
        run()
    assert cleaned == [number]


@EACH
def test_a_held_off_one_is_gone(number: signal.Signals) -> None:
    with interruption.held_off():
        send(number)


@EACH
def test_a_child_of_a_held_off_block_is_held_off_too(number: signal.Signals) -> None:
    """Ctrl-C reaches the whole foreground: the programs of a clean-up must not die of it."""
    script = f"import os; os.kill(os.getpid(), {int(number)}); print('alive')"
    if number == signal.SIGINT:
        script = (
            f"import signal; assert signal.getsignal({int(number)}) is signal.SIG_IGN; {script}"
        )
    with interruption.held_off():
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.stdout == b"alive\n"


@EACH
def test_a_deferred_one_comes_after_the_block(number: signal.Signals) -> None:
    ended = []

    def run() -> None:
        send(number)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt), interruption.deferred():
        run()
    assert ended == [number]


def test_without_a_signal_nothing_is_raised() -> None:
    with interruption.raised(), interruption.deferred():
        pass


def test_under_nohup_a_closed_terminal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption.raised():
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_may_enter() -> None:
    entered = []

    def run() -> None:
        with interruption.held_off():
            entered.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert entered == [True]
