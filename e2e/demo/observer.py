"""Watches one InferenceService in the background and keeps what it saw.

It reads through the API server like any user's dashboard would: two cheap calls a look.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from kubernetes_asyncio import client, config

from e2e.demo.timeline import Decision, PodTimes, Sample, decisions_of, pod_times, sample_of

INTERVAL_S = 2.0
BLIND_S = 20.0


class ObserverError(Exception):
    """The fleet was not seen for so long that nothing can be said about it."""


class Observer:
    """Samples the service every two seconds until closed.

    Attributes:
        samples: Oldest first.
        pods: Pod UID -> its times, also of pods that are gone; the first readiness counts.
    """

    def __init__(
        self, kubeconfig: Path, namespace: str, name: str, context: str | None = None
    ) -> None:
        self.samples: list[Sample] = []
        self.pods: dict[str, PodTimes] = {}
        self._started_s = time.time()
        self._trouble = "no answer yet"
        self._broken: str | None = None
        self._decisions: dict[tuple[float, str, str], Decision] = {}
        self._where = (kubeconfig, context, namespace, name)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Every decision seen so far, oldest first; status itself keeps only the last 20."""
        return tuple(sorted(self._decisions.values(), key=lambda d: d.at_s))

    @property
    def last(self) -> Sample:
        """The newest sample."""
        return self.samples[-1] if self.samples else Sample(at_s=time.time())

    def close(self) -> None:
        """Stops looking."""
        self._stop.set()
        self._thread.join(timeout=15)

    def check(self) -> None:
        """Checks that it has been looking all the time.

        Raises:
            ObserverError: It has ended by itself, or was blind for more than 20 s.
        """
        self.check_running()
        times = [self._started_s, *(sample.at_s for sample in self.samples), time.time()]
        gap_s = max(later - sooner for sooner, later in itertools.pairwise(times))
        if gap_s > BLIND_S:
            raise ObserverError(f"the fleet was not seen for {gap_s:.0f} s: {self._trouble}")

    def check_running(self) -> None:
        """Checks that it still looks, whatever gaps there were.

        Raises:
            ObserverError: It has ended by itself.
        """
        if self._broken is not None:
            raise ObserverError(f"the fleet is not seen any more: {self._broken}")

    def busy(self, from_s: float, to_s: float) -> float:
        """Mean share of the machine in use over a time, 0..1, stolen time included."""
        seen = [s.cpu_percent for s in self.samples if from_s <= s.at_s <= to_s]
        return sum(seen) / len(seen) / 100 if seen else 0.0

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except Exception as error:  # noqa: BLE001 - a thread's error reaches nobody by itself
            self._broken = _words(error)

    async def _watch(self) -> None:
        kubeconfig, context, namespace, name = self._where
        settings = client.Configuration()
        await config.load_kube_config(str(kubeconfig), context, client_configuration=settings)
        async with client.ApiClient(settings) as api:
            custom, core = client.CustomObjectsApi(api), client.CoreV1Api(api)
            psutil.cpu_percent()
            while not self._stop.is_set():
                started = time.monotonic()
                await self._look(custom, core, namespace, name)
                await asyncio.sleep(max(0.1, INTERVAL_S - (time.monotonic() - started)))

    async def _look(self, custom: Any, core: Any, namespace: str, name: str) -> None:
        try:
            service = await custom.get_namespaced_custom_object(
                "paceline.dev", "v1alpha1", namespace, "inferenceservices", name
            )
            selector = service.get("status", {}).get("selector", "")
            listing = await core.list_namespaced_pod(
                namespace, label_selector=selector or "none=none", _preload_content=False
            )
            pods = (await listing.json())["items"]
        except (client.ApiException, aiohttp.ClientError, TimeoutError, KeyError) as error:
            # The API server may be away for a moment; `check` says if it was more than one.
            # A raw listing that was refused has no items.
            self._trouble = _words(error)
            return
        self._keep(service, pods)

    def _keep(self, service: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        cpu = psutil.cpu_percent()
        self.samples.append(sample_of(service, pods, at_s=time.time(), cpu_percent=cpu))
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if uid not in self.pods or self.pods[uid].ready_s is None:
                self.pods[uid] = pod_times(pod)
        for decision in decisions_of(service):
            self._decisions[(decision.at_s, decision.knob, decision.reason)] = decision


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
