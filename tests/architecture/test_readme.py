"""What README says can be done as it stands there."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
LINKS = sorted(set(re.findall(r"\]\(([^)#:]+)\)", TEXT)))
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.S)


def test_the_manifest_most_people_need_is_the_sample_that_is_tested() -> None:
    shown = [yaml.safe_load(body) for language, body in BLOCKS if language == "yaml"]
    assert shown == [yaml.safe_load((ROOT / "manifests/samples/minimal.yaml").read_text())]


@pytest.mark.parametrize("link", LINKS)
def test_every_file_it_points_at_is_there(link: str) -> None:
    assert (ROOT / link).exists()


def test_the_first_screen_has_the_two_commands() -> None:
    first_screen = "\n".join(TEXT.splitlines()[:20])
    assert "make demo" in first_screen
    assert "make test" in first_screen


@pytest.mark.parametrize("value", re.findall(r"--set ([\w.,=/-]+)", TEXT))
def test_every_chart_value_it_sets_exists(value: str) -> None:
    values = yaml.safe_load((ROOT / "charts/paceline/values.yaml").read_text())
    for pair in value.split(","):
        place = values
        for key in pair.partition("=")[0].split("."):
            place = place[key]


def test_every_condition_and_reason_it_explains_exists() -> None:
    table = TEXT.partition("## Troubleshooting")[2].partition("##")[0]
    words = set(re.findall(r"[`=]([A-Z][a-zA-Z]+)`", table)) - {"True", "False"}
    sources = (ROOT / "operator/src/paceline_operator").rglob("*.py")
    code = "\n".join(path.read_text() for path in sources)
    assert len(words) > 4
    assert {word for word in words if f'"{word}"' not in code} == set()


def test_every_engine_flag_it_shows_is_one() -> None:
    source = (ROOT / "engine/src/paceline_engine/server/flags.py").read_text()
    lines = [line for _, body in BLOCKS for line in body.splitlines() if "paceline-engine" in line]
    shown = [flag for line in lines for flag in re.findall(r"--[a-z-]+", line)]
    assert shown
    assert all(f'"{flag}"' in source for flag in shown)
