from __future__ import annotations

import pytest

from paceline_engine.config import ADMIN_PORT, API_PORT, HEALTH_PORT, Device
from paceline_engine.server.flag_table import GROUPS
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import OptionError, ServeOptions, parse
from paceline_engine.server.presets import TuneFor
from paceline_engine.server.settings import ServerSettings
from tests.support.engine_config import BASE


def test_defaults() -> None:
    options = parse(["serve"])
    assert (options.port, options.health_port, options.admin_port) == (
        API_PORT,
        HEALTH_PORT,
        ADMIN_PORT,
    )
    assert options.device is Device.AUTO
    assert (options.drain_seconds, options.drain_grace_seconds) == (300, 5)
    assert options.preset == ()


def test_every_flag_has_its_field_and_its_row() -> None:
    fields = {"--" + name.replace("_", "-") for name in ServeOptions.__dataclass_fields__}
    assert fields - {"--preset"} == set(Flag)
    rows = [row.flag for rows in GROUPS.values() for row in rows]
    assert sorted(rows) == sorted(Flag)


def test_defaults_are_those_of_the_parts() -> None:
    """A part built without flags, as tests do, behaves as one that was given none."""
    options, settings = parse(["serve"]), ServerSettings(model_name="m")
    for name in ("max_queue_seconds", "max_projected_kv", "trust_tenant_header", "request_log"):
        assert getattr(options, name) == getattr(settings, name)
    for flag, name in (
        ("prefix_caching", "prefix_caching"),
        ("prefix_cache_retention_seconds", "cache_retention_s"),
        ("batch_weight", "batch_weight"),
        ("interactive_max_wait_seconds", "interactive_max_wait_s"),
        ("batch_max_wait_seconds", "batch_max_wait_s"),
        ("tenant_weights", "tenant_weights"),
        ("block_size", "block_size"),
    ):
        assert getattr(options, flag) == getattr(BASE, name)


def test_the_last_of_a_repeated_flag_holds() -> None:
    assert parse(["serve", "--max-num-seqs=8", "--max-num-seqs", "4"]).max_num_seqs == 4


def test_flags_are_not_guessed_from_their_beginnings() -> None:
    with pytest.raises(OptionError, match="--max-num-s"):
        parse(["serve", "--max-num-s=8"])


def test_a_preset_fills_only_what_was_not_given() -> None:
    options = parse(["serve", "--tune-for=latency", "--max-num-seqs=5"])
    assert options.tune_for is TuneFor.LATENCY
    assert options.max_num_seqs == 5
    assert options.max_num_batched_tokens == 128
    assert Flag.MAX_NUM_SEQS not in dict(options.preset)
    assert dict(options.preset)[Flag.MAX_NUM_BATCHED_TOKENS] == 128


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--block-size=12", "12 is no multiple of 8"),
        ("--prefix-caching=maybe", "neither on nor off"),
        ("--trust-tenant-header=1", "neither on nor off"),
        ("--prefix-cache-retention-seconds=0", "neither seconds above 0 nor keep"),
        ("--max-queue-seconds=-1", "0 to 86400"),
        ("--max-projected-kv=0.5", "not within 1 to"),
        ("--batch-weight=0", "not within 0.01 to 100"),
        ("--tenant-weights=a", "is not like name=2"),
        ("--tune-for=speed", "choose one of latency, throughput"),
        ("--max-num-seqs=few", "invalid number value"),
    ],
)
def test_a_mistake_names_flag_and_remedy(argument: str, said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        parse(["serve", argument])
    assert argument.partition("=")[0] in str(caught.value)
