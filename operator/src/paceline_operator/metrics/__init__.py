"""Measurements of engine pods, and what their counters say about a stretch of time.

One `Scraper` per fleet; call it every `source.interval_s`::

    scraper = Scraper(DirectSource(HttpFetch(session)))
    scrape = await scraper.scrape(targets, now_s)   # all pods that run, ready or not
    scrape.pods[uid]     # PodReading: freshness and gauges, for a PodObservation
    scrape.slices        # tuple[Window, ...] of the last 300 s, for a FleetObservation

A `Source` says what pods report: `DirectSource` asks each one, `PrometheusSource` a server that
does. A pod that does not answer within two seconds never delays the others by more, and its
last reading ages from fresh to stale to absent. Pods missing from `targets` are forgotten.
"""

from paceline_operator.metrics.body import read_body
from paceline_operator.metrics.direct import SCRAPE_INTERVAL_S, DirectSource
from paceline_operator.metrics.fetch import HttpFetch
from paceline_operator.metrics.prometheus import PrometheusServer, PrometheusSource
from paceline_operator.metrics.scraper import STALE_AFTER_INTERVALS, PodReading, Scrape, Scraper
from paceline_operator.metrics.source import Source, Target

__all__ = [
    "SCRAPE_INTERVAL_S",
    "STALE_AFTER_INTERVALS",
    "DirectSource",
    "HttpFetch",
    "PodReading",
    "PrometheusServer",
    "PrometheusSource",
    "Scrape",
    "Scraper",
    "Source",
    "Target",
    "read_body",
]
