from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.law import FittedLaw
from paceline_operator.simulator.profiles import UnknownProfileError, find_profile
from paceline_operator.simulator.what_if.engine_facts import (
    EngineFacts,
    Measured,
    Said,
    UnknownEnginesError,
    changed_engine,
    engine_facts,
)
from tests.operator.simulator import fleets
from tests.operator.simulator.what_if.build import PROFILE, spec

REAL = {"engine": {"device": {"type": "CPU"}}, "model": {"uri": "file:///m.gguf"}}
LONGEST = 2000


@pytest.fixture(scope="module")
def learned() -> Memory:
    """What the autopilot knows after some minutes of engines whose law is `fleets.LAW`."""
    policy = Policy(objectives=(fleets.TTFT, fleets.ITL), batch_max=1024, max_num_seqs=32)
    controller = AutopilotController(policy)
    fleets.run(fleets.poisson(3.0, 400.0), controller)
    return controller.memory


def found(given: Any, said: Said | None = None, measured: Measured | None = None) -> EngineFacts:
    return engine_facts(given, said or Said(), measured, LONGEST)


def live(memory: Memory, **more: Any) -> Measured:
    return Measured(
        source="default/chat", spec=more.pop("spec", spec(**REAL)), memory=memory, **more
    )


def test_the_measured_law_is_the_engines_own(learned: Memory) -> None:
    facts = found(spec(**REAL), measured=live(learned))
    assert isinstance(facts.law, FittedLaw)
    for load in ((0, 8, 4000, 0), (0, 2, 900, 0), (400, 8, 4000, 80_000), (504, 2, 900, 120_000)):
        assert facts.law.step_ms(*load) == pytest.approx(fleets.LAW.step_ms(*load), rel=0.06)
    assert facts.notes[0].startswith("Step time: as measured on default/chat (decoding ")


def test_what_is_said_wins_over_what_was_measured(learned: Memory) -> None:
    said = Said(profile="llama-3-8b-h100", kv_tokens=5000, cold_start_s=7.0)
    facts = found(spec(**REAL), said, live(learned, kv_tokens=9000))
    assert facts.law == find_profile("llama-3-8b-h100").law
    assert (facts.kv_tokens, facts.cold_start_s) == (5000, 7.0)


def test_an_untrusted_law_is_called_so(learned: Memory) -> None:
    assert "does not trust" in found(spec(**REAL), measured=live(learned, trusted=False)).notes[0]


def test_an_engine_that_the_new_spec_changes_is_named(learned: Memory) -> None:
    changed = spec(**{**REAL, "resources": {"requests": {"cpu": "4"}}})
    facts = found(changed, measured=live(learned))
    assert isinstance(facts.law, FittedLaw)
    assert "that the spec changes resources is not in it" in facts.notes[0]


def test_another_profile_is_taken_where_the_spec_changes_to_it(learned: Memory) -> None:
    facts = found(spec(), measured=live(learned))
    assert facts.law == find_profile(PROFILE).law
    assert facts.kv_tokens == find_profile(PROFILE).kv_capacity_tokens


def test_without_a_live_fleet_the_spec_names_its_profile() -> None:
    facts = found(spec())
    assert facts.law == find_profile(PROFILE).law
    assert facts.cold_start_s == 120.0
    assert "--cold-start" in facts.notes[2]


def test_a_fleet_that_has_hardly_run_is_as_none() -> None:
    assert found(spec(), measured=live(Memory(), spec=spec())).law == find_profile(PROFILE).law


def test_where_nothing_is_known_the_profiles_are_listed() -> None:
    with pytest.raises(UnknownEnginesError, match=r"--profile: llama-2-70b-h100-tp4, llama"):
        found(spec(**REAL))


def test_an_unknown_profile_is_said() -> None:
    with pytest.raises(UnknownProfileError, match="unknown profile 'fast'"):
        found(spec(engine={"device": {"type": "Simulated", "profile": "fast"}}))


def test_a_cache_that_nobody_knows_never_limits(learned: Memory) -> None:
    facts = found(spec(**REAL), measured=live(learned))
    assert facts.kv_tokens == 64 * LONGEST
    assert "never limits" in facts.notes[1]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"model": {"uri": "file:///other.gguf"}}, "model"),
        ({"resources": {"requests": {"memory": "4Gi"}}}, "resources"),
        ({"engine": {"device": {"type": "CUDA"}}}, "engine.device"),
        ({"engine": {"device": {"type": "CPU"}, "dtype": "bfloat16"}}, "engine.dtype"),
        (
            {"engine": {"device": {"type": "CPU"}, "kvCache": {"memory": "2Gi"}}},
            "engine.kvCache.memory",
        ),
        (
            {"template": {"spec": {"nodeSelector": {"gpu": "h100"}}}},
            "template.spec.nodeSelector",
        ),
    ],
)
def test_a_cache_that_engines_report_is_not_that_of_other_engines(
    learned: Memory, change: dict[str, Any], what: str
) -> None:
    facts = found(spec(**{**REAL, **change}), measured=live(learned, kv_tokens=9000))
    assert facts.kv_tokens == 64 * LONGEST
    assert facts.notes[1].startswith("KV cache: unknown, for the 9,000 tokens that engines report")
    assert f"of another {what};" in facts.notes[1]
    assert facts.notes[1].endswith("pass what it will hold as --kv-tokens.")
    told = found(spec(**{**REAL, **change}), Said(kv_tokens=7000), live(learned, kv_tokens=9000))
    assert told.kv_tokens == 7000


def test_other_engines_with_a_profile_have_its_cache(learned: Memory) -> None:
    facts = found(spec(), measured=live(learned, kv_tokens=9000))
    assert facts.kv_tokens == find_profile(PROFILE).kv_capacity_tokens
    assert facts.notes[1].endswith("from the profile.")


def test_a_measured_law_leaves_the_cache_to_the_profile(learned: Memory) -> None:
    facts = found(spec(), measured=live(learned, spec=spec()))
    assert isinstance(facts.law, FittedLaw)
    assert facts.kv_tokens == find_profile(PROFILE).kv_capacity_tokens
    assert facts.notes[1].endswith("from the profile.")
    reported = found(spec(), measured=live(learned, spec=spec(), kv_tokens=9000))
    assert reported.kv_tokens == 9000


def test_the_same_engines_keep_the_cache_they_report(learned: Memory) -> None:
    wider = {
        **REAL,
        "scaling": {"maxReplicas": 9},
        "template": {"metadata": {"labels": {"a": "b"}}},
    }
    facts = found(spec(**wider), measured=live(learned, kv_tokens=9000))
    assert facts.kv_tokens == 9000


@pytest.mark.parametrize(
    ("load_seconds", "known_s", "wanted_s"),
    [(None, (50.0, 80.0), 80.0), (None, (), 120.0), (20, (50.0, 80.0), 25.0)],
)
def test_the_cold_start_is_the_slowest_measured_unless_the_spec_changes_it(
    load_seconds: int | None, known_s: tuple[float, ...], wanted_s: float
) -> None:
    device = {"type": "Simulated", "profile": PROFILE}
    if load_seconds is not None:
        device["loadSeconds"] = load_seconds  # type: ignore[assignment]
    memory = Memory(cold_starts_s=known_s)
    facts = found(spec(engine={"device": device}), measured=live(memory, spec=spec()))
    assert facts.cold_start_s == wanted_s


def test_limits_and_objectives_are_no_change_of_the_engine() -> None:
    other = spec(slos=[], scaling={"maxReplicas": 9}, engine={
        "device": {"type": "Simulated", "profile": PROFILE}, "maxNumSeqs": 32,
    })  # fmt: skip
    assert changed_engine(spec(), other) == ()
    assert changed_engine(spec(), spec(**REAL)) == ("model", "engine.device")
