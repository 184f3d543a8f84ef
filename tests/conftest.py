"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# On a loaded machine an example may take any time; a test's own time-out bounds it instead.
settings.register_profile("paceline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("paceline")
