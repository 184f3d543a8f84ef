from __future__ import annotations

import pytest

from paceline_engine.config import Device
from paceline_engine.planning import plan
from paceline_engine.server.flag_table import GROUPS
from paceline_engine.server.flags import Flag
from paceline_engine.server.options import parse
from paceline_engine.server.presets import PRESETS, TuneFor, described, preset_values
from paceline_engine.tokenizer import load_tokenizer
from tests.support.engine_server import engine_server

ROWS = {row.flag: row for rows in GROUPS.values() for row in rows}


@pytest.mark.parametrize("preset", list(TuneFor))
@pytest.mark.parametrize("device", [Device.AUTO, Device.CPU, Device.CUDA, Device.SIMULATED])
def test_a_preset_is_the_same_as_its_flags_written_out(preset: TuneFor, device: Device) -> None:
    written = [
        f"{flag}={value}" for flag, value in preset_values(preset, device, frozenset()).items()
    ]
    assert len(written) == len(PRESETS[preset])
    short = parse(["serve", f"--device={device}", f"--tune-for={preset}"])
    long = parse(["serve", f"--device={device}", *written])
    names = [flag.removeprefix("--").replace("-", "_") for flag in Flag if flag != Flag.TUNE_FOR]
    assert [getattr(short, n) for n in names] == [getattr(long, n) for n in names]


@pytest.mark.parametrize("preset", list(TuneFor))
def test_help_states_every_value(preset: TuneFor) -> None:
    text = ROWS[Flag.TUNE_FOR].help
    assert f"{preset}: {described(preset)}" in text
    for flag in PRESETS[preset]:
        assert flag in described(preset)


@pytest.mark.parametrize("preset", list(TuneFor))
@pytest.mark.parametrize("flag", list(Flag))
def test_what_the_user_gave_is_left_alone(preset: TuneFor, flag: Flag) -> None:
    assert flag not in preset_values(preset, Device.CPU, {flag})


@pytest.mark.parametrize("preset", list(TuneFor))
@pytest.mark.parametrize(
    "given", ["--initial-batched-tokens=2048", "--initial-running-seqs=64", "--max-num-seqs=7"]
)
def test_a_preset_never_contradicts_what_was_given(preset: TuneFor, given: str) -> None:
    arguments = ["serve", "--device=simulated", f"--tune-for={preset}", given]
    config = plan(parse(arguments), load_tokenizer(None), None).config
    if "tokens" in given:
        assert config.initial_batched_tokens == 2048
    else:
        assert config.initial_running_seqs == int(given.partition("=")[2])


def test_without_one_nothing_is_set() -> None:
    assert preset_values(None, Device.CPU, frozenset()) == {}
    assert parse(["serve"]).preset == ()


def test_the_log_says_which_flags_a_preset_set() -> None:
    with engine_server("--tune-for=latency", "--max-num-seqs=9") as running:
        (line,) = [line for line in running.log if "tuned for" in line]
        assert running.value("max_num_batched_tokens") == 512
        assert running.value("max_num_running_seqs") == 9
    assert line.endswith(
        "tuned for latency: --max-num-batched-tokens=512 --batch-weight=0.1 "
        "--max-queue-seconds=10 --max-projected-kv=2"
    )
