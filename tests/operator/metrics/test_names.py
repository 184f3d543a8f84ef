from __future__ import annotations

from paceline_operator.metrics import names
from paceline_operator.metrics.exposition import COUNTERS, HISTOGRAMS


def test_every_family_is_named_by_its_kind() -> None:
    for family in names.FAMILIES:
        counter = family.kind is names.Kind.COUNTER
        assert family.name.endswith("_total") is counter, family.name


def test_what_is_read_is_declared() -> None:
    declared = {family.full_name for family in names.FAMILIES}
    assert set(COUNTERS) | set(HISTOGRAMS) <= declared
