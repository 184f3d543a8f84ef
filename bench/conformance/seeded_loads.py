"""The evaluation's own loads: one for each thing that makes fleets fail.

Sizes are such that the model's replicas move between about 2 and 12, and that each load lasts
ten cold starts of five minutes. Targets leave the longest prompt, alone, less than half of its
time to first token; ITL targets allow budgets of some hundred tokens.
"""

from __future__ import annotations

from bench.conformance.load_case import LoadCase, Service
from paceline_operator.autopilot.vocabulary.window import BATCH
from paceline_operator.simulator.fleet.faults import Fault, StepsSlower
from paceline_operator.simulator.loads.conversations import Conversations
from paceline_operator.simulator.loads.lengths import LogNormal, LogNormalLengths
from paceline_operator.simulator.loads.load import Load
from paceline_operator.simulator.loads.popularity import Popularity
from paceline_operator.simulator.loads.rates import (
    Burst,
    Constant,
    Diurnal,
    OnOff,
    Piecewise,
    Ramp,
    Segment,
    Step,
)
from paceline_operator.simulator.loads.shared_prefixes import SharedPrefixes
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage
from paceline_operator.simulator.loads.together import Together

LARGE = Service(profile="llama-3-70b-a100-tp4", ttft_ms=3000, itl_ms=100)
TALKING = Service(profile="llama-3-70b-a100-tp4", ttft_ms=4000, itl_ms=100)
TEMPLATED = Service(profile="llama-3-70b-a100-tp4", ttft_ms=5000, itl_ms=75)
CLOSE = Service(profile="llama-3-70b-a100-tp4", ttft_ms=6000, itl_ms=60, max_num_seqs=64)
SMALL = Service(profile="llama-3-8b-a100", ttft_ms=6000, itl_ms=50)

HOUR_S = 3600.0
HALF_S = HOUR_S / 2
ANSWER = LogNormal(mean=210, sigma=0.55, most=800)
CHAT = LogNormalLengths(prompt=LogNormal(mean=1800, sigma=0.9, most=6144), output=ANSWER)
SHORT_CHAT = LogNormalLengths(prompt=LogNormal(mean=300, sigma=0.8, most=1024), output=ANSWER)
BRIEF_CHAT = LogNormalLengths(prompt=LogNormal(mean=600, sigma=0.8, most=2048), output=ANSWER)
CONTEXT_8K = LogNormalLengths(
    prompt=LogNormal(mean=6500, sigma=0.2, least=4096, most=8192),
    output=LogNormal(mean=800, sigma=0.4, most=2000),
)
MESSAGE = LogNormalLengths(prompt=LogNormal(mean=160, sigma=0.8, most=1024), output=ANSWER)


def seeded_loads() -> tuple[LoadCase, ...]:
    """All of them, those whose regime changes last."""
    return (*_rates(), *_contents(), *_regimes())


def _rates() -> tuple[LoadCase, ...]:
    """One kind of request, at rates that move."""
    step = Step(rps=4.0, before_s=1200.0, step_s=1200.0, after_s=1500.0)
    ramp = Ramp(rps=3.0, before_s=600.0, ramp_s=900.0, top_s=600.0, after_s=600.0)
    on_off = OnOff(rps=8.0, on_s=1350.0)
    burst = Burst(rps=6.0, factor=3.0, every_s=600.0, burst_s=20.0, bursts=6)
    return (
        _case("constant", LARGE, _chat(Constant(rps=8.0, duration_s=HOUR_S))),
        _case("clustered", LARGE, _chat(Constant(rps=8.0, duration_s=HOUR_S), dispersion=5.0)),
        _case("step", LARGE, _chat(step), steps_up_at_s=(step.before_s,), is_threefold=True),
        _case("ramp", LARGE, _chat(ramp)),
        _case("burst", LARGE, _chat(burst)),
        _case("diurnal", LARGE, _chat(Diurnal(mean_rps=8.0, day_s=5400.0, noise=0.15))),
        _case("on-off", LARGE, _chat(on_off), steps_up_at_s=(on_off.on_s + on_off.off_s,)),
    )


def _contents() -> tuple[LoadCase, ...]:
    """Requests of several kinds, or whose kind moves."""
    steady = Constant(rps=6.0, duration_s=HOUR_S)
    long = Stage(1200.0, _longer(SHORT_CHAT, 6.0))
    stages = (Stage(0.0, SHORT_CHAT), long, Stage(2100.0, SHORT_CHAT))
    backlog = Piecewise(
        parts=(Segment(600.0, 0.0, 0.0), Segment(60.0, 25.0, 25.0), Segment(2940.0, 0.0, 0.0))
    )
    talk = Conversations(
        rates=Ramp(rps=5.0, factor=3.0, before_s=600.0, ramp_s=900.0, top_s=600.0, after_s=600.0),
        message=MESSAGE,
        system_prompts=Popularity(8),
        system_blocks=2,
        turns=6.0,
        most_tokens=8192,
    )
    return (
        _case("conversations", TALKING, talk),
        _case(
            "token-burst",
            LARGE,
            SingleTurns(rates=steady, stages=stages),
            steps_up_at_s=(long.from_s,),
        ),
        _case(
            "batch-backlog",
            LARGE,
            Together(
                (
                    _chat(steady),
                    SingleTurns(rates=backlog, stages=(Stage(0.0, CHAT),), tier=BATCH),
                )
            ),
        ),
    )


def _regimes() -> tuple[LoadCase, ...]:
    """The best budget is another one after the middle than before.

    By the step law: from 560 to 370 tokens where contexts grow, from 180 to 340 where prompts
    are no longer found and fewer sequences decode beside them, from 240 to 110 where steps take
    half as long again.
    """
    switch = SingleTurns(
        rates=Piecewise(parts=(Segment(HALF_S, 20.0, 20.0), Segment(HALF_S, 4.5, 4.5))),
        stages=(Stage(0.0, BRIEF_CHAT), Stage(HALF_S, CONTEXT_8K)),
    )
    drop = SharedPrefixes(
        rates=Constant(rps=5.0, duration_s=HOUR_S),
        own=SHORT_CHAT,
        prefixes=Popularity(4),
        prefix_blocks=8,
        shared_until_s=HALF_S,
    )
    slower = StepsSlower(start_s=HALF_S, factor=1.5)
    return (
        _case("8k-context", SMALL, switch, steps_up_at_s=(HALF_S,), changes_regime=True),
        _case("hit-rate-drop", TEMPLATED, drop, steps_up_at_s=(HALF_S,), changes_regime=True),
        _case(
            "slower-steps",
            CLOSE,
            _chat(Constant(rps=6.0, duration_s=HOUR_S)),
            faults=(slower,),
            steps_up_at_s=(HALF_S,),
            changes_regime=True,
        ),
    )


def _chat(
    rates: Constant | Step | Ramp | Burst | Diurnal | OnOff, dispersion: float = 1.0
) -> SingleTurns:
    return SingleTurns(rates=rates, stages=(Stage(0.0, CHAT),), dispersion=dispersion)


def _longer(lengths: LogNormalLengths, factor: float) -> LogNormalLengths:
    prompt = lengths.prompt
    return LogNormalLengths(
        prompt=LogNormal(
            mean=prompt.mean * factor, sigma=prompt.sigma, most=round(prompt.most * factor)
        ),
        output=lengths.output,
    )


def _case(
    name: str,
    service: Service,
    load: Load,
    *,
    faults: tuple[Fault, ...] = (),
    steps_up_at_s: tuple[float, ...] = (),
    is_threefold: bool = False,
    changes_regime: bool = False,
) -> LoadCase:
    return LoadCase(
        name=name,
        play=load.requests,
        duration_s=load.duration_s,
        service=service,
        faults=faults,
        steps_up_at_s=steps_up_at_s,
        is_threefold=is_threefold,
        changes_regime=changes_regime,
    )
