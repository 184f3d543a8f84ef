"""The Prometheus text format, as far as it is needed: samples of wanted names, nothing else.

What is not wanted is passed over unread, so that reading costs no more than what is used of it.
A wanted line that is malformed is an error: an answer that was cut short must not look like
counters that fell. Types, help texts, times and exemplars are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

Sample = tuple[str, Mapping[str, str], float]
"""Name, labels and value."""

LONGEST_CACHED = 1024
CACHED = 1 << 14
"""Sets of labels that are remembered, each up to so many characters: engines tell the same ones
in every round, and longer ones are none of ours."""

_PLAIN = re.compile(r'(?:[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*"(?:,(?!$)|$))*')
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*)"')
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_TERM = re.compile(
    r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[a-zA-Z_][a-zA-Z0-9_]*))\s*'
    r'(?:=\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*)?(?P<end>[,}])'
)
_ESCAPE = re.compile(r'\\([\\n"])')


class MalformedError(ValueError):
    """A line is not in the format; the text quotes its beginning."""


class TextReader:
    """Reads answers; what it learns of one makes the next of the same engines cheap.

    Args:
        wanted: Names of samples.
        common: A label that all samples of a text have alike and that is left out of them, so that
            engines of many models tell the same sets of labels.
    """

    def __init__(self, wanted: Collection[str], common: str = "") -> None:
        self._wanted = frozenset(wanted)
        self._common = re.compile(rf'[{{,]({re.escape(common)}="[^"\\]*")') if common else None
        self._labels: dict[str, Mapping[str, str]] = {"": {}}

    def samples(self, text: str) -> Iterator[Sample]:
        """Wanted samples in their order.

        Raises:
            MalformedError: A line that is, or may be, of a wanted sample is malformed.
        """
        wanted, known = self._wanted, self._labels
        for line in self._without_common(text).split("\n"):
            if not line or line[0] == "#":
                continue
            brace = line.find("{")
            name = line[:brace]
            if brace > 0 and name in wanted:
                # Nearly all lines: one set of labels without escapes, one space, the value.
                end = line.rfind("} ")
                text_of_labels = line[brace + 1 : end]
                labels = known.get(text_of_labels) or self._learn(text_of_labels)
                value = None if labels is None else _number(line[end + 2 :])
                if labels is not None and value is not None:
                    yield name, labels, value
                    continue
            elif brace > 0 and not (name[-1].isspace() or name[0].isspace()):
                continue
            found = _odd(line, wanted)
            if found is not None:
                yield found

    def _without_common(self, text: str) -> str:
        found = self._common.search(text) if self._common is not None else None
        if found is None:
            return text
        # Within a value a quote is escaped: what is looked for cannot be part of one.
        return text.replace(f"{{{found[1]},", "{").replace(f",{found[1]}", "")

    def _learn(self, text: str) -> Mapping[str, str] | None:
        """Labels of a set in its plain form, None where it is another."""
        if not _PLAIN.fullmatch(text):
            return None
        pairs = _PAIR.findall(text)
        labels = dict(pairs)
        if len(labels) < len(pairs):
            return None
        if len(text) > LONGEST_CACHED:
            return labels
        if len(self._labels) >= CACHED:
            self._labels.clear()
        self._labels[text] = labels
        return labels


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _odd(line: str, wanted: Collection[str]) -> Sample | None:
    """A sample in any form; None where it is none that is wanted."""
    line = line.strip()
    if not line or line[0] == "#":
        return None
    match = _NAME.match(line)
    name, place = (match[0], match.end()) if match else ("", 0)
    if name and name not in wanted:
        return None
    rest = line[place:].lstrip()
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        terms, rest = _terms(line, rest[1:])
        name = _named(line, name, terms)
        labels = {key: value for key, value in terms if value is not None}
        if len(labels) + sum(value is None for _, value in terms) < len(terms):
            raise _malformed(line, "a label twice")
    elif rest == line[place:]:
        raise _malformed(line, "no value")
    return (name, labels, _value(line, rest)) if name in wanted else None


def _terms(line: str, rest: str) -> tuple[list[tuple[str, str | None]], str]:
    """Labels, and a quoted name as one without a value, up to the closing brace."""
    found: list[tuple[str, str | None]] = []
    place = 0
    while not (closing := rest[place:].lstrip()).startswith("}"):
        match = _TERM.match(rest, place)
        if match is None:
            raise _malformed(line, "labels that do not end")
        quoted, bare, value = match["quoted"], match["bare"], match["value"]
        if value is None and quoted is None:
            raise _malformed(line, "a label without a value")
        key = bare if quoted is None else _unescaped(quoted)
        found.append((key, None if value is None else _unescaped(value)))
        place = match.end()
        if match["end"] == "}":
            return found, rest[place:]
    return found, closing[1:]


def _named(line: str, name: str, terms: list[tuple[str, str | None]]) -> str:
    """The name, wherever it stands."""
    inside = [key for key, value in terms if value is None]
    if len(inside) + bool(name) != 1:
        raise _malformed(line, "not one name")
    return name or inside[0]


def _value(line: str, rest: str) -> float:
    """The value; a time or an exemplar may follow."""
    words = rest.split()
    value = _number(words[0]) if words else None
    if value is None:
        raise _malformed(line, "no value")
    if len(words) > 1 and words[1] != "#" and _number(words[1]) is None:
        raise _malformed(line, "neither a time nor an exemplar after the value")
    return value


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def _malformed(line: str, why: str) -> MalformedError:
    return MalformedError(f"{why}: {line[:120]!r}")
