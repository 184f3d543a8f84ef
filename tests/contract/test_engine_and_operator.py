"""What the two members say about flags, ports, paths, bodies and metrics is the same."""

import pytest

from paceline_engine import config
from paceline_engine.runner import profiles
from paceline_engine.server import admin_wire, flags, metric_names
from paceline_engine.server.drain import DrainPhase
from paceline_engine.server.options import parse
from paceline_engine.server.queue_rule import QueueRule
from paceline_operator.api import choice
from paceline_operator.api.v1alpha1 import Slo
from paceline_operator.autopilot.plant import prior
from paceline_operator.autopilot.vocabulary import window
from paceline_operator.autopilot.vocabulary.fleet import PodTunables, Tunables
from paceline_operator.domain import contract, tunables
from paceline_operator.domain.arguments import arguments
from paceline_operator.domain.model_source import Weights
from paceline_operator.domain.scale_in import DrainState
from paceline_operator.metrics import names
from paceline_operator.reconcile import engine_admin
from tests.support import fleet


def test_the_command_is_the_same() -> None:
    assert (contract.COMMAND, contract.SUBCOMMAND) == (flags.COMMAND, flags.SUBCOMMAND)


def test_ports_are_the_same() -> None:
    assert contract.API_PORT == config.API_PORT
    assert contract.HEALTH_PORT == config.HEALTH_PORT
    assert contract.ADMIN_PORT == config.ADMIN_PORT


def test_the_operator_sets_no_flag_the_engine_lacks() -> None:
    assert {flag.value for flag in contract.Flag} <= {flag.value for flag in flags.Flag}


def test_the_operators_word_for_the_limit_on_waiting_is_one_the_engine_knows() -> None:
    assert QueueRule(contract.BY_OBJECTIVES) is QueueRule.SLO


def test_the_engine_takes_all_that_the_operator_gives_it() -> None:
    """Twice: as it is, and with the user's own limit, which wins."""
    given = arguments("chat", fleet.spec(), Weights("/m"), thread_count=2)
    assert parse(given).max_queue_seconds is QueueRule.SLO
    assert parse([*given, f"{contract.Flag.MAX_QUEUE_SECONDS}=off"]).max_queue_seconds is None


def test_paths_and_the_start_values_file_are_the_same() -> None:
    """The operator calls no path that the engine lacks; people call others too."""
    assert {p.value for p in contract.AdminPath} <= {p.value for p in flags.AdminPath}
    assert {p.value for p in contract.HealthPath} == {p.value for p in flags.HealthPath}
    assert contract.TUNABLES_FILE == flags.TUNABLES_FILE


def test_every_family_has_the_same_name_type_and_labels() -> None:
    engine = {f.full_name: (f.kind.value, f.labels) for f in metric_names.FAMILIES}
    operator = {f.full_name: (f.kind.value, f.labels) for f in names.FAMILIES}
    assert operator == engine


def test_terms_of_the_moments_and_their_order_are_the_same() -> None:
    """The engine's order is that of its sums; the operator finds each sum by its place."""
    assert window.TERMS == metric_names.MOMENT_TERMS
    assert tuple(window.VARIABLES) == ("n", *metric_names.MOMENT_VARIABLES)


def test_classes_of_steps_are_the_same() -> None:
    assert [each.value for each in window.StepClass] == list(metric_names.STEP_CLASSES)


def test_outcomes_that_the_operator_tells_apart_are_the_engines() -> None:
    assert metric_names.SLO_OUTCOMES == ("good", "bad")
    assert {each.value for each in choice.SloMetric} == {m.value for m in admin_wire.SloMetric}


def test_refusals_that_count_as_missed_are_the_engines_for_want_of_capacity() -> None:
    assert set(metric_names.OVERLOAD_REASONS) == names.OVERLOAD_REASONS


def test_the_engine_understands_every_key_of_the_operators_tunables() -> None:
    """It passes over keys that it does not know, so a misspelt one would be lost in silence."""
    slo = Slo(name="first", tier="batch", metric="ITL", percentile=90, target_ms=123)
    knobs = Tunables(max_num_batched_tokens=256, max_num_running_seqs=12, step_time_target_ms=12.5)
    agreed = tunables.Agreed(7, knobs, (slo,))
    sent = tunables.body(agreed)
    read = admin_wire.TunablesRequest.model_validate(sent)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == sent
    assert admin_wire.TunablesRequest.model_validate_json(tunables.text(agreed)) == read


def test_the_operator_reads_each_value_from_the_key_the_engine_gives_it() -> None:
    def knobs(tokens: int) -> admin_wire.Knobs:
        return admin_wire.Knobs(
            max_num_batched_tokens=tokens,
            max_num_running_seqs=tokens + 1,
            step_time_target_ms=tokens + 2,
        )

    answer = admin_wire.TunablesResponse(
        revision=7,
        requested=knobs(10),
        effective=knobs(20),
        floor=knobs(30),
        ceiling=knobs(40),
        step=knobs(50),
    )
    assert tunables.read_report(answer.model_dump(mode="json", by_alias=True)) == PodTunables(
        effective=20,
        floor=30,
        ceiling=40,
        step=50,
        running_seqs=21,
        running_ceiling=41,
        step_time_target_ms=22.0,
        revision=7,
        requested=10,
    )


@pytest.mark.parametrize("phase", list(DrainPhase))
@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("terminal", [True, False])
def test_the_operator_understands_every_phase_of_a_drain(
    phase: DrainPhase, *, empty: bool, terminal: bool
) -> None:
    answer = admin_wire.DrainResponse(
        phase=phase.value, running_requests=3, empty=empty, terminal=terminal
    )
    assert engine_admin._drain(answer.model_dump(mode="json", by_alias=True)) == DrainState(
        refusing=phase is DrainPhase.REFUSING,
        announced=phase is DrainPhase.ANNOUNCED,
        empty=empty,
        terminal=terminal,
    )


@pytest.mark.parametrize("name", sorted(profiles.PROFILES))
def test_the_prior_of_a_simulated_profile_is_its_law(name: str) -> None:
    law, believed = profiles.PROFILES[name].law, prior.PROFILES[name]
    decode, prefill = believed.decode, believed.prefill
    assert (decode.base_ms, decode.per_decode_row_ms) == (law.floor_ms, law.floor_per_token_ms)
    assert (prefill.base_ms, prefill.per_prefill_token_ms) == (law.base_ms, law.per_token_ms)
    assert decode.per_kv_token_ms == prefill.per_kv_token_ms == law.per_kv_token_ms
