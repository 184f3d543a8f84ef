"""Only a renewal after the restart is a sign of life."""

from datetime import UTC, datetime

import pytest

from e2e.smoke.leases import renewed_after

AT = datetime(2026, 3, 4, 5, 6, 7, 500_000, UTC)


@pytest.mark.parametrize(
    ("renewed", "holder", "alive"),
    [
        ("2026-03-04T05:06:07.500001Z", "node", True),
        ("2026-03-04T05:06:07.500000Z", "node", False),
        ("2026-03-04T05:05:37.000000Z", "node", False),
        ("2026-03-04T06:06:08.000000+01:00", "node", True),
        ("2026-03-04T05:06:08.000000Z", "", False),
        (None, "node", False),
    ],
    ids=["just after", "at once", "stale", "another zone", "given up", "never renewed"],
)
def test_a_renewal_counts_from_a_time_on(renewed: str | None, holder: str, *, alive: bool) -> None:
    lease = {"spec": {"renewTime": renewed, "holderIdentity": holder}}
    assert renewed_after(lease, AT.timestamp()) is alive


def test_a_lease_that_nobody_took_shows_no_life() -> None:
    assert not renewed_after({}, 0.0)
