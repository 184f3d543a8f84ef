"""What all tests share."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from e2e.interruption import NUMBERS, raised

# On a loaded machine an example may take any time; a test's own time-out bounds it instead.
settings.register_profile("paceline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("paceline")


def pytest_configure(config: pytest.Config) -> None:
    """Ends a run that is terminated as one that is interrupted: fixtures clean up."""
    stack = ExitStack()
    stack.enter_context(raised())
    config.add_cleanup(stack.close)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """A test that left signals ignored would have later ones wait for what they cannot end."""
    before = [signal.getsignal(number) for number in NUMBERS]
    done = yield
    assert [signal.getsignal(number) for number in NUMBERS] == before
    return done


@pytest.fixture(scope="module", autouse=True)
def _leaks_are_found_where_they_are_made() -> Iterator[None]:
    """Without it, a process or file left in a reference cycle fails the run, but names no test."""
    yield
    if "torch" not in sys.modules:  # With it, one collection takes half a second.
        gc.collect()
