"""What the two members say about flags, ports, paths and metrics is the same."""

import pytest

from paceline_engine import config
from paceline_engine.runner import profiles
from paceline_engine.server import flags, metric_names
from paceline_operator.autopilot import prior, window
from paceline_operator.domain import contract
from paceline_operator.metrics import names


def test_the_command_is_the_same() -> None:
    assert (contract.COMMAND, contract.SUBCOMMAND) == (flags.COMMAND, flags.SUBCOMMAND)


def test_ports_are_the_same() -> None:
    assert contract.API_PORT == config.API_PORT
    assert contract.HEALTH_PORT == config.HEALTH_PORT
    assert contract.ADMIN_PORT == config.ADMIN_PORT


def test_the_operator_sets_no_flag_the_engine_lacks() -> None:
    assert {flag.value for flag in contract.Flag} <= {flag.value for flag in flags.Flag}


def test_paths_and_the_start_values_file_are_the_same() -> None:
    assert {p.value for p in contract.AdminPath} == {p.value for p in flags.AdminPath}
    assert {p.value for p in contract.HealthPath} == {p.value for p in flags.HealthPath}
    assert contract.TUNABLES_FILE == flags.TUNABLES_FILE


def test_every_family_has_the_same_name_type_and_labels() -> None:
    engine = {f.full_name: (f.kind.value, f.labels) for f in metric_names.FAMILIES}
    operator = {f.full_name: (f.kind.value, f.labels) for f in names.FAMILIES}
    assert operator == engine


def test_terms_and_classes_of_the_moments_are_the_same() -> None:
    assert set(window.TERMS) == set(metric_names.MOMENT_TERMS)


@pytest.mark.parametrize("name", sorted(profiles.PROFILES))
def test_the_prior_of_a_simulated_profile_is_its_law(name: str) -> None:
    law, believed = profiles.PROFILES[name].law, prior.PROFILES[name]
    decode, prefill = believed.decode, believed.prefill
    assert (decode.base_ms, decode.per_decode_row_ms) == (law.floor_ms, law.floor_per_token_ms)
    assert (prefill.base_ms, prefill.per_prefill_token_ms) == (law.base_ms, law.per_token_ms)
    assert decode.per_kv_token_ms == prefill.per_kv_token_ms == law.per_kv_token_ms
