"""What stands in the way of an installation on somebody's cluster."""

import pytest

from e2e.mark import Found, foreign


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ((), None),
        ((Found("crd x", exists=False, marked=False),), None),
        ((Found("crd x", exists=True, marked=True),), None),
        ((Found("crd x", exists=True, marked=False),), "crd x"),
        (
            (
                Found("crd x", exists=True, marked=False),
                Found("release y", exists=True, marked=True),
                Found("namespace z", exists=True, marked=False),
            ),
            "crd x, namespace z",
        ),
    ],
    ids=["nothing", "free", "a run's", "a user's", "some"],
)
def test_only_what_is_there_without_the_mark_is_foreign(
    found: tuple[Found, ...], named: str | None
) -> None:
    assert foreign(found) == named
