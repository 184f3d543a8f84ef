from __future__ import annotations

from collections.abc import Callable

import pytest

from paceline_operator.yaml_text import (
    MAX_DEPTH,
    MAX_REPEATED,
    YamlError,
    document,
    documents,
)


def bomb(levels: int) -> str:
    """Each level holds the one before ten times."""
    return _levels("[x]", lambda before: f"[{', '.join([before] * 10)}]", levels)


def merge_bomb(levels: int) -> str:
    return _levels("{x: 1}", lambda before: f"{{<<: [{', '.join([before] * 10)}]}}", levels)


def chain(levels: int) -> str:
    """Each level holds the one before once."""
    return _levels("[x]", lambda before: f"[{before}]", levels)


def _levels(first: str, of: Callable[[str], str], levels: int) -> str:
    later = (f"a{n}: &a{n} {of(f'*a{n - 1}')}" for n in range(1, levels))
    return "\n".join((f"a0: &a0 {first}", *later))


def test_documents_are_read() -> None:
    assert documents("a: 1\n---\n- 2024-02-29\n---\n")[0] == {"a": 1}
    assert len(documents("a: 1\n---\nb")) == 2
    assert (document(""), document("a: 1")) == (None, {"a": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "while parsing a flow node"),
        ("a: 2024-02-30", "day is out of range for month"),
        ("a: 2024-01-01T25:00:00Z", "hour must be in 0..23"),
        ("!!int x", "invalid literal"),
        ("1" * 5000, "Exceeds the limit"),
        ("!!int ''", "a value does not fit its tag"),
        ("!!bool x", "a value does not fit its tag"),
        ("!!timestamp x", "a value does not fit its tag"),
        ("!!timestamp {=: 5}", "a value does not fit its tag"),
        ("[" * 30_000, f"nested more than {MAX_DEPTH} levels deep"),
        ("{a: " * 30_000, f"nested more than {MAX_DEPTH} levels deep"),
        ("a: {b: 1, c: 2, b: 3}", "the key 'b' is there twice; remove one"),
        ("a: &a {x: *a}", "the value of an anchor contains itself"),
        (bomb(20), f"aliases repeat more than {MAX_REPEATED} values"),
        (merge_bomb(20), f"aliases repeat more than {MAX_REPEATED} values"),
        (chain(1000), f"nested more than {MAX_DEPTH} levels deep"),
    ],
)
def test_what_is_none_is_said_in_one_line(text: str, said: str) -> None:
    with pytest.raises(YamlError) as refused:
        documents(text)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_two_documents_are_not_one() -> None:
    with pytest.raises(YamlError, match="2 documents; give it one"):
        document("a: 1\n---\nb: 1")


def test_aliases_and_long_texts_are_read() -> None:
    assert document("a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a, x: 2}") == {
        "a": {"x": 1},
        "b": [{"x": 1}, {"x": 1}],
        "c": {"x": 2},
    }
    assert document("[" * MAX_DEPTH + "]" * MAX_DEPTH)
