"""Why a pod's metrics could not be read."""

from __future__ import annotations


class ScrapeError(Exception):
    """One pod gave no usable metrics; the text says which and why."""
