"""Leader election by a Lease, and the guard that ends a process which may have lost it.

The holder renews far more often than the Lease expires. When renewal fails for so long that
another process could soon take over, the process ends before that can happen. A process that
was paused past the expiry is caught by the guard: every write asks it first, and every write
carries a resourceVersion or revision besides, so even one already under way changes nothing
that a new leader has changed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from paceline_operator.kube.client import KubeClient, Object
from paceline_operator.kube.errors import (
    ConflictError,
    ForbiddenError,
    KubeError,
    LeaseLostError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from paceline_operator.kube.resource import LEASE

log = logging.getLogger(__name__)


def boot_clock() -> float:
    """Seconds that also pass while the process or the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """Who, where and how long.

    Attributes:
        namespace: Where the Lease lies.
        name: Its name.
        identity: This process, unique in the cluster.
        duration_s: How long others wait after the last renewal.
        deadline_s: How long this process goes on without one; well below `duration_s`.
        renew_s: Pause between renewals and between attempts.
    """

    namespace: str
    name: str
    identity: str
    duration_s: float = 15.0
    deadline_s: float = 10.0
    renew_s: float = 2.0


class LeaderLease:
    """One process's claim to be the leader.

    Attributes:
        refusal: Why the server gives no lease as long as nobody acts, empty where it may.
    """

    def __init__(
        self, client: KubeClient, terms: LeaseTerms, clock: Callable[[], float] = boot_clock
    ) -> None:
        self._client = client
        self._terms = terms
        self._clock = clock
        self._renewed_at = float("-inf")
        self._seen: tuple[str, float] = ("", 0.0)
        self._live: Object | None = None
        self._awaited = ""
        self.refusal = ""

    def check(self) -> None:
        """Guard of writes.

        Raises:
            LeaseLostError: The last renewal is too old to be sure.
        """
        if self._clock() - self._renewed_at > self._terms.deadline_s:
            raise LeaseLostError(f"lease {self._terms.name} was not renewed in time")

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        while not await self._attempt():
            self._tell_holder()
            await asyncio.sleep(self._terms.renew_s)
        log.info("%s leads by lease %s", self._terms.identity, self._terms.name)

    async def keep(self) -> None:
        """Renew until the lease is lost.

        Raises:
            LeaseLostError: Always, in the end.
        """
        while True:
            await asyncio.sleep(self._terms.renew_s)
            if not await self._attempt():
                self.check()
                if self._held_by_other():
                    raise LeaseLostError(f"lease {self._terms.name} was taken over")

    async def release(self) -> None:
        """Give the lease up, so that the next leader need not wait for its expiry."""
        if self._live is None or self._holder != self._terms.identity:
            return
        spec = {**self._live["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._put({**self._live, "spec": spec})
        except KubeError as error:
            log.warning("lease %s not released: %s", self._terms.name, error)

    def _held_by_other(self) -> bool:
        return self._holder not in ("", self._terms.identity)

    @property
    def _holder(self) -> str:
        """Who held it when it was last read, empty where nobody did."""
        return (self._live or {}).get("spec", {}).get("holderIdentity") or ""

    def _tell_holder(self) -> None:
        if not self._held_by_other() or self._holder == self._awaited:
            return
        self._awaited = self._holder
        log.info("%s stands by: %s holds lease %s", self._terms.identity, self._holder, self._place)

    @property
    def _place(self) -> str:
        return f"{self._terms.namespace}/{self._terms.name}"

    async def _attempt(self) -> bool:
        """Take or renew once; False where it is not ours or the server is away."""
        started = self._clock()
        try:
            async with asyncio.timeout(min(self._terms.renew_s, self._terms.deadline_s / 2)):
                self._live = await self._claim()
        except (UnavailableError, ConflictError, LeaseLostError, TimeoutError) as error:
            log.debug("lease %s: %s", self._place, error)
            return False
        except KubeError as error:
            self._refused(error)
            return False
        self.refusal = ""
        if self._live["spec"].get("holderIdentity") != self._terms.identity:
            return False
        self._renewed_at = started
        return True

    def _refused(self, error: KubeError) -> None:
        """Told once: trying on helps only after somebody has acted."""
        text = f"lease {self._place}: {error}; {self._remedy(error)}"
        if text != self.refusal:
            log.warning("%s; trying on", text)
        self.refusal = text

    def _remedy(self, error: KubeError) -> str:
        where = f"namespace {self._terms.namespace}"
        if isinstance(error, UnauthorizedError):
            return "give the operator's service account a token that the server takes"
        if isinstance(error, ForbiddenError):
            return f"grant get, create and update of leases (coordination.k8s.io) in {where}"
        if isinstance(error, NotFoundError):
            return f"create {where}, or have leaseNamespace name another"
        return "set leaseName and leaseNamespace to what the server takes"

    async def _claim(self) -> Object:
        path = LEASE.path(self._terms.namespace, self._terms.name)
        try:
            live = await self._client.get(path)
        except NotFoundError:
            return await self._create()
        if not self._may_take(live):
            return live
        try:
            return await self._put({**live, "spec": self._spec(live)})
        except ConflictError:
            return await self._client.get(path)

    def _may_take(self, live: Object) -> bool:
        spec = live.get("spec", {})
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._terms.identity):
            return True
        # Clocks of machines differ: expiry is counted from when we saw the last change.
        version = live["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = (version, self._clock())
        waited = self._clock() - self._seen[1]
        return bool(waited > float(spec.get("leaseDurationSeconds", self._terms.duration_s)))

    def _spec(self, live: Object | None) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        old = (live or {}).get("spec", {})
        ours = old.get("holderIdentity") == self._terms.identity
        return {
            "holderIdentity": self._terms.identity,
            "leaseDurationSeconds": round(self._terms.duration_s),
            "acquireTime": old.get("acquireTime", now) if ours else now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions", 0)) + (0 if ours else 1),
        }

    async def _create(self) -> Object:
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._terms.name, "namespace": self._terms.namespace},
            "spec": self._spec(None),
        }
        return await self._client.write("POST", LEASE.path(self._terms.namespace), body)

    async def _put(self, body: Object) -> Object:
        path = LEASE.path(self._terms.namespace, self._terms.name)
        return await self._client.write("PUT", path, body)
