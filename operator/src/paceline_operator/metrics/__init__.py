"""Scraping of engine pods, and what the counters say about a stretch of time.

One `Scraper` per fleet; call it every `SCRAPE_INTERVAL_S`::

    scraper = Scraper(HttpFetch(session))
    scrape = await scraper.scrape(targets, now_s)   # all pods that run, ready or not
    scrape.pods[uid]     # PodReading: freshness and gauges, for a PodObservation
    scrape.slices        # tuple[Window, ...] of the last 300 s, for a FleetObservation

A pod that does not answer within two seconds never delays the others by more, and its
last reading ages from fresh to stale to absent. Pods missing from `targets` are forgotten.
"""

from paceline_operator.metrics.fetch import HttpFetch
from paceline_operator.metrics.scraper import (
    SCRAPE_INTERVAL_S,
    PodReading,
    Scrape,
    Scraper,
    Target,
)

__all__ = ["SCRAPE_INTERVAL_S", "HttpFetch", "PodReading", "Scrape", "Scraper", "Target"]
