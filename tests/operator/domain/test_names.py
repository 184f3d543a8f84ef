from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.domain.names import MAX_NAME, derive, labels, selector, selector_text

NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,80}[a-z0-9])?", fullmatch=True)


def test_short_names_stay_readable() -> None:
    assert derive("chat", "proxy") == "chat-proxy"


@given(NAMES, st.sampled_from(["", "proxy", "tunables"]))
def test_no_name_is_too_long(owner: str, suffix: str) -> None:
    assert len(derive(owner, suffix)) <= MAX_NAME


@given(NAMES, NAMES)
def test_different_owners_have_different_children(one: str, other: str) -> None:
    assert (derive(one, "admin") == derive(other, "admin")) == (one == other)


def test_selector_is_part_of_the_labels() -> None:
    assert selector("a", "engine").items() <= labels("a", "engine").items()


def test_selector_text_is_a_label_selector() -> None:
    assert selector_text("a") == "paceline.dev/component=engine,paceline.dev/service=a"
