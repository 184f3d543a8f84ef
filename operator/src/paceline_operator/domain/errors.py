"""Typed errors of the pure core.

    DomainError
        SpecError            the object as written cannot be served: Stalled
            UnsupportedModelError     scheme, runtime or location not allowed here
            InvalidOverlayError       a pod template overlay of the wrong shape
        InvalidCalendarError      a schedule or freeze window that no clock understands

Each carries the condition's reason and one line for people.
"""

from __future__ import annotations


class DomainError(Exception):
    """Root of the tree."""


class SpecError(DomainError):
    """The spec is accepted by the schema but cannot be served as written."""

    reason = "InvalidSpec"


class UnsupportedModelError(SpecError):
    """The model, or the runtime for it, is not supported here."""

    reason = "UnsupportedModel"


class InvalidOverlayError(SpecError):
    """A pod template overlay is not a pod template."""

    reason = "InvalidTemplate"


class InvalidCalendarError(SpecError):
    """A schedule or freeze window says no time: its cron expression or time zone is wrong."""

    reason = "InvalidCalendar"
