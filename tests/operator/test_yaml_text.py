from __future__ import annotations

import pytest

from paceline_operator.yaml_text import YamlError, document, documents


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
        ("[" * 30_000, "maximum recursion depth exceeded"),
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
