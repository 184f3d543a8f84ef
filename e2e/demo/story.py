"""From what the two parts showed to the figures of the last line and the report."""

from __future__ import annotations

from collections.abc import Sequence

from e2e.demo.fleet import FleetPart
from e2e.demo.plot import Picture
from e2e.demo.real import RealPart, Span
from e2e.demo.report import Part, PhaseRow
from e2e.demo.timeline import Decision, Sample
from e2e.demo.verdict import Outcome, recovery_limit_s
from e2e.load import record, report
from e2e.load.recovery import Objective, recovery_s
from e2e.load.report import Attainment

NOTHING = Attainment(good=0, total=0, n=0)
LIVE_KNOBS = ("budget", "stepTime", "runningSeqs")


def outcome_of(real: RealPart, fleet: FleetPart) -> Outcome:
    """All figures the verdict needs."""
    records = [*real.records, *fleet.records]
    settled_s = _settled_s(fleet)
    recovered = _recovery_s(fleet)
    first_move = _first_move_s(fleet)
    serving = fleet.first_serving_s
    return Outcome(
        requests=len(records),
        lost=sum(r.outcome not in (record.Outcome.OK, record.Outcome.REFUSED) for r in records),
        itl_before=_real_itl(real, real.before),
        itl_after=_real_itl(real, real.after),
        ttft_after=_fleet_ttft(fleet, settled_s),
        real_ttft_after=_real_ttft(real, real.after),
        simulated_itl_after=_fleet_itl(fleet, settled_s),
        steps_before=real.before.steps.all_steps,
        steps_after=real.after.steps.all_steps if real.after else 0,
        recovery_s=recovered,
        cold_start_s=fleet.cold_start_s,
        first_move_s=None if first_move is None else first_move - fleet.stepped_s,
        first_serving_s=None if serving is None else serving - fleet.stepped_s,
        replicas_peak=max((s.ready for s in fleet.samples), default=0),
        replicas_end=fleet.samples[-1].ready if fleet.samples else 0,
        budget_moved=real.moved_s is not None,
        restarts=max((s.restarts for s in (*real.samples, *fleet.samples)), default=0),
        replaced_pods=real.pods - max((s.replicas for s in real.samples[:1]), default=0),
        host_cpu=fleet.host_cpu,
        outside_cpu=real.outside_cpu,
        lag_ms=fleet.lag_ms,
    )


def _settled_s(fleet: FleetPart) -> float:
    """When recovery is due at the latest; from here to the end of the load is "after"."""
    cold_start_s = fleet.cold_start_s or 0.0
    return min(fleet.stepped_s + recovery_limit_s(cold_start_s), fleet.fell_s)


def _recovery_s(fleet: FleetPart) -> float | None:
    targets = fleet.manifest
    objectives = (
        Objective(metric="TTFT", target_ms=targets.ttft_target_ms),
        Objective(metric="ITL", target_ms=targets.itl_target_ms),
    )
    return recovery_s(fleet.records, objectives, changed_s=fleet.stepped_s, until_s=fleet.fell_s)


def _first_move_s(fleet: FleetPart) -> float | None:
    """Whole seconds in status: a move in the step's own second counts as after it."""
    moves = (d.at_s for d in fleet.decisions if d.knob in LIVE_KNOBS)
    return min((at_s for at_s in moves if at_s >= int(fleet.stepped_s)), default=None)


def _real_itl(real: RealPart, span: Span | None) -> Attainment:
    if span is None:
        return NOTHING
    gaps = report.gaps_between(real.records, span.from_s, span.to_s)
    return report.itl_of(gaps, real.manifest.itl_target_ms, span.steps.decoding)


def _real_ttft(real: RealPart, span: Span | None) -> Attainment:
    if span is None:
        return NOTHING
    sent = report.between(real.records, span.from_s, span.to_s)
    return report.ttft_attainment(sent, real.manifest.ttft_target_ms)


def _fleet_ttft(fleet: FleetPart, from_s: float) -> Attainment:
    sent = report.between(fleet.records, from_s, fleet.ended_s)
    return report.ttft_attainment(sent, fleet.manifest.ttft_target_ms)


def _fleet_itl(fleet: FleetPart, from_s: float) -> Attainment:
    gaps = report.gaps_between(fleet.records, from_s, fleet.ended_s)
    steps = [at for at in report.step_times(fleet.records) if from_s <= at < fleet.ended_s]
    return report.itl_of(gaps, fleet.manifest.itl_target_ms, len(steps))


def report_parts(real: RealPart, fleet: FleetPart) -> list[Part]:
    """Both parts as the report shows them."""
    return [_real_report(real), _fleet_report(fleet)]


def _real_report(real: RealPart) -> Part:
    spans = [("before: only recommending", real.before.from_s, real.before.to_s)]
    if real.after is not None:
        spans.append(("after: tuned live", real.after.from_s, real.after.to_s))
    first_s = min((r.sent_s for r in real.records), default=real.before.from_s)
    picture = _picture(
        real,
        "Real engines: SmolLM2-135M, two pods of one thread",
        first_s,
        [(start_s, name.split(":")[0]) for name, start_s, _ in spans]
        + [(real.switched_s, "tuning on")],
    )
    rows = [_row(name, real, start_s, end_s) for name, start_s, end_s in spans]
    lead = (
        "Short chats and long prompts share two engines whose budget at start lets long prompts "
        "break the ITL objective. When tuning is switched on, engines are told the step time to "
        "keep and size each step for it, live: no restart."
    )
    return Part(key="real", lead=lead, picture=picture, phases=rows)


def _fleet_report(fleet: FleetPart) -> Part:
    spans = [
        ("before the step", fleet.started_s, fleet.stepped_s),
        ("load times three", fleet.stepped_s, _settled_s(fleet)),
        ("recovered", _settled_s(fleet), fleet.fell_s),
        ("load has fallen", fleet.fell_s, fleet.ended_s),
    ]
    picture = _picture(
        fleet,
        "Simulated engines: a threefold load step",
        fleet.started_s,
        [(fleet.stepped_s, "load x 3"), (fleet.fell_s, "load falls")],
    )
    rows = [_row(name, fleet, start_s, end_s) for name, start_s, end_s in spans]
    lead = (
        "Real servers, schedulers and KV accounting on a published step-time law. The live knob "
        "answers first, replicas follow after their cold start and leave when the load falls."
    )
    return Part(key="fleet", lead=lead, picture=picture, phases=rows)


def _picture(
    part: RealPart | FleetPart, title: str, started_s: float, phases: Sequence[tuple[float, str]]
) -> Picture:
    samples: Sequence[Sample] = [s for s in part.samples if s.at_s >= started_s]
    decisions: Sequence[Decision] = [d for d in part.decisions if d.at_s >= started_s - 1]
    return Picture(
        title=title,
        started_s=started_s,
        arrivals_s=[r.sent_s for r in part.records],
        ttft=[(r.sent_s, r.ttft_ms) for r in part.records if r.ttft_ms is not None],
        itl=[gap for r in part.records for gap in r.gaps_at()],
        ttft_target_ms=part.manifest.ttft_target_ms,
        itl_target_ms=part.manifest.itl_target_ms,
        samples=samples,
        decisions=decisions,
        phases=phases,
    )


def _row(name: str, part: RealPart | FleetPart, from_s: float, to_s: float) -> PhaseRow:
    sent = report.between(part.records, from_s, to_s)
    gaps = report.gaps_between(part.records, from_s, to_s)
    ttft = report.ttft_attainment(sent, part.manifest.ttft_target_ms)
    itl = report.itl_of(gaps, part.manifest.itl_target_ms, len(gaps))
    firsts = [r.ttft_ms for r in sent if r.ttft_ms is not None]
    return PhaseRow(
        name=name,
        requests=len(sent),
        lost=len(report.lost(sent)),
        refused=sum(r.outcome is record.Outcome.REFUSED for r in sent),
        ttft=_percent(ttft),
        itl=_percent(itl),
        ttft_p95=_milliseconds(report.percentile(firsts, 95)),
        itl_p95=_milliseconds(report.percentile(gaps, 95)),
    )


def _percent(attainment: Attainment) -> str:
    return f"{attainment.share:.1%}" if attainment.total else "-"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
