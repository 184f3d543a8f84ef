"""The course of the trial: load and comparison, faults, foreign writers, Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from e2e.cluster.settings import NODE_IP
from e2e.install import InstallError, install
from e2e.job import LoadLog
from e2e.kubectl import KubectlError
from e2e.load.record import Outcome as RequestOutcome
from e2e.load.record import Record
from e2e.smoke import faults as kills
from e2e.smoke.__main__ import Report
from e2e.smoke.losses import EngineKill, Fault, explain, silences
from e2e.smoke.site import Site, SmokeError, until
from e2e.stand import Stand
from e2e.trial import faults, foreign, part, prometheus
from e2e.trial.diversion import Diversion, diverted
from e2e.trial.impostor import Mute, mute
from e2e.trial.load import Loads, Stages
from e2e.trial.verdict import Outcome, Part
from paceline_operator.domain.contract import HEALTH_PORT

API_AWAY_S = 60.0
CONVERGED_S = 180.0
RECOVERY_S = 30.0
"""From an engine's return until the queue that it left behind is gone."""


@dataclass(slots=True)
class Findings:
    """What came up on the way.

    Attributes:
        spans: When something was broken.
        kills: The engine that was killed.
        short_of_engine: When that engine was missing.
        unmended: What did not hold, in words.
        mended: Names of what did.
        converge_s: See `verdict.Outcome`.
    """

    spans: list[Fault] = field(default_factory=list)
    kills: list[EngineKill] = field(default_factory=list)
    short_of_engine: list[Fault] = field(default_factory=list)
    unmended: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    converge_s: float | None = None


def run(place: Stand, loads: Loads, report: Report) -> Outcome:
    """Runs it all.

    Raises:
        SmokeError, KubectlError, ObserverError: It could not be carried through.
    """
    site = Site(place.settings, place.kubectl, place.system, place.host, part.NAME)
    found = Findings()
    served = part.serve(site, loads.direct, report, lambda: _break_and_mend(site, report, found))
    part.remove(site)
    direct = part.figures(served, report)
    _note(report, "foreign writers", found, lambda: "; ".join(foreign.check(site)))
    asked: list[Part] = []
    _note(
        report,
        "Prometheus",
        found,
        lambda: _by_prometheus(place, site, loads.by_prometheus, report, asked),
    )
    lost, on_killed = _lost(served.log, found.kills)
    refused = [r for r in served.log.records if r.outcome is RequestOutcome.REFUSED]
    return Outcome(
        requests=len(served.log.records),
        refused=len(refused),
        refused_beside_faults=len(unexplained(refused, served.judged_s[1], found.short_of_engine)),
        lost=lost,
        lost_on_killed=on_killed,
        silences=silences(served.log.records, found.spans),
        direct=direct,
        by_prometheus=asked[0] if asked else None,
        unmended=found.unmended,
        mended=found.mended,
        converge_s=found.converge_s,
    )


def unexplained(
    refused: Sequence[Record], from_s: float, short_of_engine: Sequence[Fault]
) -> list[Record]:
    """Refusals after a time that no missing engine explains; before it the load itself does."""
    return [
        record
        for record in refused
        if record.sent_s >= from_s
        and not any(f.from_s <= record.sent_s <= f.to_s + RECOVERY_S for f in short_of_engine)
    ]


def _break_and_mend(site: Site, report: Report, found: Findings) -> None:
    def of(mend: Callable[[Site], faults.Mended]) -> Callable[[], str]:
        def run() -> str:
            done = mend(site)
            found.spans.append(done.fault)
            return done.words

        return run

    _note(report, "all engines' metrics hang", found, of(faults.hang_metrics))
    _note(report, "one engine ignores live values", found, of(faults.ignore_tunables))
    _note(report, "kill an engine", found, lambda: _kill_engine(site, found))
    _note(report, "kill the leading operator", found, lambda: _kill_leader(site, found))
    _note(report, "kill the API server", found, lambda: _kill_api_server(site, found))
    _note(report, "back to what it should be", found, lambda: _converge(site, found))


def _note(report: Report, name: str, found: Findings, run: Callable[[], str]) -> None:
    """One fault that is not mended must not hide what the others show."""

    def guarded() -> str:
        try:
            words = run()
        except (SmokeError, KubectlError, InstallError) as error:
            found.unmended.append(f"{name}: {error}")
            return f"short: {error}"
        found.mended.append(f"{name}: {words}")
        return words

    report.step(name, guarded)


def _kill_engine(site: Site, found: Findings) -> str:
    fault, kill = kills.kill_engine(site)
    found.spans.append(fault)
    found.short_of_engine.append(fault)
    found.kills.append(kill)
    return f"engine at {kill.pod_ip} killed with {kill.held} requests, and replaced"


def _kill_leader(site: Site, found: Findings) -> str:
    fault, leader = kills.kill_leader(site)
    found.spans.append(fault)
    return f"{leader} leads; both run again after {fault.to_s - fault.from_s:.0f} s"


def _kill_api_server(site: Site, found: Findings) -> str:
    fault = kills.kill_api_server(site, API_AWAY_S)
    found.spans.append(fault)
    reported_s = time.time() - fault.to_s
    return f"away {fault.to_s - fault.from_s:.0f} s; all report again {reported_s:.0f} s later"


def _converge(site: Site, found: Findings) -> str:
    found.converge_s = until("every condition as it should be", lambda: _is_well(site), CONVERGED_S)
    return f"after {found.converge_s:.0f} s"


def _is_well(site: Site) -> bool:
    status = site.service()["status"]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    budget = status["budget"]
    return (
        conditions.get("Ready") == "True"
        and conditions.get("MetricsFresh") == "True"
        and conditions.get("SLOMet") != "False"
        and conditions.get("Conflict") == "False"
        and status["readyReplicas"] == status["replicas"] == status["desiredReplicas"]
        and budget.get("acknowledged") == budget.get("total") == status["replicas"]
        and faults.is_followed(site)
    )


def _by_prometheus(
    place: Stand, site: Site, stages: Stages, report: Report, asked: list[Part]
) -> str:
    """The same with a Prometheus server as the source of metrics; a new fleet, no faults.

    Raises:
        SmokeError: The server did not come up or was not asked, engines were asked instead,
            requests were lost, or nothing was scaled.
    """
    with prometheus.running(place.kubectl) as url:
        install(place.helm, {**place.values, **prometheus.values(url)})
        try:
            with mute(NODE_IP) as engines, diverted(faults.operators(site), _metrics(engines)):
                before = prometheus.queries(url)
                served = part.serve(site, stages, report)
                queries = prometheus.queries(url) - before
                at_engines = engines.accepted
            part.remove(site)
        finally:
            install(place.helm, place.values)
    if why := prometheus.misread(queries, at_engines, stages.length_s):
        raise SmokeError(why)
    asked.append(part.figures(served, report))
    lost, _ = _lost(served.log, ())
    if lost:
        raise SmokeError(f"{len(lost)} requests were lost: {lost[0]}")
    if asked[0].seen.replicas_most <= asked[0].seen.replicas_least:
        raise SmokeError("replicas did not follow the load")
    return f"{len(served.log.records)} requests, none lost; {queries} queries answered"


def _metrics(instead: Mute) -> Diversion:
    """The metrics of every engine: who asks one itself gets no answer, and is counted."""
    return Diversion(None, HEALTH_PORT, instead.port)


def _lost(log: LoadLog, killed: Sequence[EngineKill]) -> tuple[list[str], int]:
    """What nothing explains, in words, and how many ended with a killed engine."""
    bad = [r for r in log.records if r.outcome not in (RequestOutcome.OK, RequestOutcome.REFUSED)]
    on_killed = 0
    if killed:
        losses = explain(log.records, killed[0])
        bad, on_killed = list(losses.unexplained), len(losses.on_killed)
    return [f"lost: request {r.id} at {r.sent_s:.1f}: {r.error}" for r in bad], on_killed
