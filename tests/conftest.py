"""What all tests share."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from e2e.interruption import raised

# On a loaded machine an example may take any time; a test's own time-out bounds it instead.
settings.register_profile("paceline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("paceline")


def pytest_configure(config: pytest.Config) -> None:
    """Ends a run that is terminated as one that is interrupted: fixtures clean up."""
    stack = ExitStack()
    stack.enter_context(raised())
    config.add_cleanup(stack.close)
