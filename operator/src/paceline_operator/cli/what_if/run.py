"""`what-if`: gathers specs, what is known of the engines and the load, and plays them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from paceline_operator.autopilot.vocabulary.policy import policy_from_spec
from paceline_operator.cli.errors import CliError
from paceline_operator.cli.manifest import Manifest, read_manifest
from paceline_operator.cli.object_name import check_namespace
from paceline_operator.cli.progress import Told
from paceline_operator.cli.service import Service
from paceline_operator.cli.what_if import load as what_if_load
from paceline_operator.cli.what_if import plays as what_if_progress
from paceline_operator.cli.what_if.live import live_service, measured_on
from paceline_operator.cli.what_if.load import PlayableLoad
from paceline_operator.cli.what_if.prometheus_access import read_access
from paceline_operator.cli.what_if.subject import Subject, subjects
from paceline_operator.simulator.loads.trace import TraceError
from paceline_operator.simulator.profiles import UnknownProfileError, find_profile
from paceline_operator.simulator.what_if.comparison import Comparison, LoadFacts, Variant
from paceline_operator.simulator.what_if.engine_facts import (
    Measured,
    Said,
    UnknownEnginesError,
    engine_facts,
)
from paceline_operator.simulator.what_if.figures import Figures
from paceline_operator.simulator.what_if.fleet import fleet_config, left_out
from paceline_operator.simulator.what_if.lead_in import lead_s, led_in
from paceline_operator.simulator.what_if.play import Stage, play
from paceline_operator.simulator.what_if.run_notes import infeasible, never_served, without_samples

NO_OLD = "none"
_ROUTER_SEED = 7919


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user wants to know.

    Attributes:
        new: Manifest of the new spec.
        old: Manifest of the old one, `none` for no old one, None for the live object.
        namespace: Of the live object, None for the manifest's or the context's.
        context: Of the kubeconfig, None for the current one.
        trace: Trace file, None with Prometheus.
        prometheus: Address of a server, None with a trace.
        token_file: With a bearer token for it.
        ca_file: With the authorities to trust with it.
        last_s: How much of Prometheus's past.
        selector: Labels of the engines' series, None for the usual ones.
        scale: How many times the load.
        seeds: How often each spec is played.
        said: What is said of the engines.
    """

    new: Path
    old: str | None = None
    namespace: str | None = None
    context: str | None = None
    trace: Path | None = None
    prometheus: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    last_s: float = 86_400.0
    selector: str | None = None
    scale: float = 1.0
    seeds: int = 3
    said: Said = field(default_factory=Said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Everything that is played.

    Attributes:
        name: Of the service.
        subjects: Old first, the new one last.
        measured: On the live fleet, None where there is none.
        running: Replicas of the live fleet, None where there is none.
        load: The load.
        notes: What else has to be said.
    """

    name: str
    subjects: tuple[Subject, ...]
    measured: Measured | None
    running: int | None
    load: PlayableLoad
    notes: tuple[str, ...]


async def gather(asked: Asked, now_s: float) -> Gathered:
    """Reads files, the live object and Prometheus.

    Raises:
        CliError: Any of them cannot be used.
    """
    _check_profile(asked.said)
    if asked.namespace is not None:
        check_namespace(asked.namespace)
    new = read_manifest(asked.new)
    old = None if asked.old in (None, NO_OLD) else read_manifest(Path(str(asked.old)))
    service, notes = (
        (None, ())
        if asked.old is not None
        else await live_service(
            new.name,
            asked.namespace or new.namespace,
            asked.context,
            is_required=asked.namespace is not None or asked.context is not None,
        )
    )
    namespace = service.namespace if service else asked.namespace or new.namespace or "default"
    load = await _load(asked, new.name, namespace, now_s)
    measured = _measured(service, new, old, load.kv_tokens)
    return Gathered(
        name=new.name,
        subjects=subjects(new, old, measured if service is not None else None, now_s),
        measured=measured,
        running=service.status.desired_replicas if service else None,
        load=load,
        notes=notes,
    )


def compare(gathered: Gathered, asked: Asked, told: Told) -> Comparison:
    """Plays every spec with every seed.

    Raises:
        CliError: Nothing says how long the engines' steps take, or the load has changed meanwhile.
    """
    load = gathered.load
    stages = [_stage(subject, gathered, asked.said) for subject in gathered.subjects]
    lead = lead_s(max(stage.facts.cold_start_s for stage in stages), load.span_s)
    try:
        variants = _variants(gathered, stages, asked.seeds, lead, told)
    except TraceError as error:
        raise CliError(str(error)) from error
    return Comparison(
        name=gathered.name,
        load=_load_facts(load, variants[-1].runs),
        lead_s=lead,
        old=variants[0] if len(variants) > 1 else None,
        new=variants[-1],
        notes=gathered.notes,
    )


def _variants(
    gathered: Gathered, stages: list[Stage], seeds: int, lead: float, told: Told
) -> list[Variant]:
    load, plays = gathered.load, len(stages) * seeds
    variants = []
    for place, (subject, stage) in enumerate(zip(gathered.subjects, stages, strict=True)):
        runs: list[Figures] = []
        for seed in range(1, seeds + 1):
            requests = led_in(lambda seed=seed: load.requests(seed), lead)  # type: ignore[misc]
            runs.append(
                play(
                    stage,
                    requests,
                    lead_s=lead,
                    span_s=load.span_s,
                    generator=what_if_load.generator(seed + _ROUTER_SEED),
                    at=what_if_progress.Play(
                        told,
                        f"{subject.label} spec, seed {seed} of {seeds}",
                        place=place * seeds + seed - 1,
                        plays=plays,
                        length_s=lead + load.span_s,
                    ),
                )
            )
        variants.append(_variant(subject, stage, tuple(runs)))
    return variants


def _check_profile(said: Said) -> None:
    if said.profile is not None:
        try:
            find_profile(said.profile)
        except UnknownProfileError as error:
            raise CliError(str(error)) from error


async def _load(asked: Asked, name: str, namespace: str, now_s: float) -> PlayableLoad:
    if asked.trace is not None:
        return what_if_load.from_trace(asked.trace, asked.scale)
    if asked.prometheus is None:
        raise CliError("no load: name a file with --trace, or a server with --prometheus")
    selector = asked.selector or what_if_load.default_selector(name, namespace)
    return await what_if_load.from_prometheus(
        asked.prometheus,
        read_access(asked.prometheus, asked.token_file, asked.ca_file),
        selector,
        span_s=asked.last_s,
        scale=asked.scale,
        now_s=now_s,
    )


def _measured(
    service: Service | None, new: Manifest, old: Manifest | None, kv_tokens: int | None
) -> Measured | None:
    """What is known of the fleet that the load was served by."""
    if service is not None:
        return measured_on(service, kv_tokens)
    if kv_tokens is None:
        return None
    spec = new.spec if old is None else old.spec
    return Measured(source="the engines' series", spec=spec, kv_tokens=kv_tokens)


def _stage(subject: Subject, gathered: Gathered, said: Said) -> Stage:
    longest = gathered.load.totals.longest
    try:
        facts = engine_facts(subject.spec, said, gathered.measured, longest)
    except (UnknownEnginesError, UnknownProfileError) as error:
        raise CliError(f"{subject.source}: {error}") from error
    return Stage(spec=subject.spec, facts=facts, running=gathered.running)


def _variant(subject: Subject, stage: Stage, runs: tuple[Figures, ...]) -> Variant:
    price = subject.spec.scaling.cost_per_replica_hour
    objectives = policy_from_spec(subject.spec).objectives
    return Variant(
        label=subject.label,
        source=subject.source,
        objectives=objectives,
        cost_per_replica_hour=None if price is None else float(price),
        runs=runs,
        notes=(
            *subject.notes,
            *stage.facts.notes,
            *left_out(subject.spec),
            *never_served(fleet_config(stage.spec, stage.facts).engine, runs),
            *without_samples(objectives, runs),
            *infeasible(runs),
        ),
    )


def _load_facts(load: PlayableLoad, runs: tuple[Figures, ...]) -> LoadFacts:
    return LoadFacts(
        source=load.source,
        span_s=load.span_s,
        requests=sum(run.requests for run in runs) / len(runs),
        prompt_mean=load.totals.prompt_mean,
        output_mean=load.totals.output_mean,
        scale=load.scale,
        is_reconstructed=load.is_reconstructed,
        notes=load.notes,
    )
