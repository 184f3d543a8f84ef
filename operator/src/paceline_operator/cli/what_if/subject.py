"""The specs that `what-if` plays."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.cli.manifest import Manifest, check_playable
from paceline_operator.simulator.what_if.engine_facts import Measured
from paceline_operator.simulator.what_if.manual_replicas import kept, without_past_floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A spec to play.

    Attributes:
        label: `old` or `new`.
        source: Where it comes from.
        spec: The spec.
        notes: How it differs from what its source says.
    """

    label: str
    source: str
    spec: InferenceServiceSpec
    notes: tuple[str, ...] = ()


def subjects(
    new: Manifest, old: Manifest | None, live: Measured | None, now_s: float
) -> tuple[Subject, ...]:
    """Old first; with a live object, replicas are what they would be after an apply.

    Args:
        new: The new manifest.
        old: Another one, None without.
        live: The live fleet, None without.
        now_s: Since the epoch.

    Raises:
        CliError: After an apply nothing would be served.
    """
    if live is None:
        subject = Subject(label="new", source=str(new.path), spec=new.spec)
        before = () if old is None else (Subject(label="old", source=str(old.path), spec=old.spec),)
        return (*before, subject)
    spec, notes = kept(new.spec, live.spec)
    check_playable(spec, f"{new.path}, with the replicas of {live.source}")
    both = (
        Subject(label="old", source=live.source, spec=live.spec),
        Subject(label="new", source=str(new.path), spec=spec, notes=notes),
    )
    return tuple(_without_past_floor(each, live, now_s) for each in both)


def _without_past_floor(subject: Subject, live: Measured, now_s: float) -> Subject:
    spec, notes = without_past_floor(subject.spec, live.memory, now_s)
    return replace(subject, spec=spec, notes=(*subject.notes, *notes))
