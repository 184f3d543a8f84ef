"""Why a pod's metrics could not be read."""

from __future__ import annotations


class ScrapeError(Exception):
    """One pod gave no usable metrics; the text says which and why."""


class PrometheusError(Exception):
    """A Prometheus server gave no usable answer; the text is one line for the user."""
