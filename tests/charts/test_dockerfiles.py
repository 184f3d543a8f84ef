"""The images: pinned, small in rights, and starting what pods start."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from paceline_operator.domain import contract
from paceline_operator.domain.pod import USER_ID
from paceline_operator.settings import Settings
from tests.support.tree import ROOT

MEMBERS = ("operator", "engine")


def instructions(member: str) -> list[tuple[str, str]]:
    text = (ROOT / member / "Dockerfile").read_text()
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    steps = [line for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (step.partition(" ") for step in steps)]


def last_stage(member: str) -> list[tuple[str, str]]:
    steps = instructions(member)
    start = max(i for i, (word, _) in enumerate(steps) if word == "FROM")
    return steps[start:]


@pytest.mark.parametrize("member", MEMBERS)
def test_bases_are_pinned(member: str) -> None:
    bases = [rest.split()[0] for word, rest in instructions(member) if word == "FROM"]
    assert len(bases) == 2
    assert [b for b in bases if not re.fullmatch(r"python:3\.11\.\d+(-slim)?-bookworm", b)] == []
    assert "-slim-" in bases[-1]


@pytest.mark.parametrize("member", MEMBERS)
def test_runs_as_the_user_pods_run_as(member: str) -> None:
    users = [rest for word, rest in last_stage(member) if word == "USER"]
    assert users == [f"{USER_ID}:{USER_ID}"]


@pytest.mark.parametrize("member", MEMBERS)
def test_starts_the_members_script(member: str) -> None:
    project = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
    (start,) = [rest for word, rest in last_stage(member) if word == "ENTRYPOINT"]
    assert start == f'["paceline-{member}"]'
    assert f"paceline-{member}" in project["scripts"]


def test_engine_starts_what_its_pods_start() -> None:
    assert ("ENTRYPOINT", f'["{contract.COMMAND}"]') in last_stage("engine")
    ports = f"{contract.API_PORT} {contract.HEALTH_PORT} {contract.ADMIN_PORT}"
    assert ("EXPOSE", ports) in last_stage("engine")


@pytest.mark.parametrize("member", MEMBERS)
def test_versions_come_from_the_constraints(member: str) -> None:
    installs = [rest for word, rest in instructions(member) if word == "RUN" and "install" in rest]
    assert "--constraint constraints.txt" in installs[0]
    assert installs[1:] == ["pip install --no-deps ."]


@pytest.mark.parametrize("member", MEMBERS)
def test_the_line_that_lists_requirements_lists_them(member: str) -> None:
    (step,) = [rest for word, rest in instructions(member) if "requirements.txt" in rest]
    command = step.partition(" > ")[0].removeprefix("python ")
    out = subprocess.run(
        ["sh", "-c", f"{sys.executable} {command}"],
        cwd=ROOT / member,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    project = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
    assert out.splitlines() == project["dependencies"]


def test_kernels_are_compiled_in_the_image() -> None:
    steps = instructions("engine")
    assert ("RUN", "python -m paceline_engine.kernels.cpu.build") in steps
    assert (ROOT / "engine/src/paceline_engine/kernels/cpu/build.py").is_file()


@pytest.mark.parametrize("member", MEMBERS)
def test_only_what_the_image_needs_is_sent(member: str) -> None:
    lines = (ROOT / member / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert sent == copied(member)
    assert [path for path in sent if not (ROOT / member / path).exists()] == []


def copied(member: str) -> set[str]:
    """What the image takes from its build context."""
    steps = [rest.split() for word, rest in instructions(member) if word == "COPY"]
    from_context = [words for words in steps if not words[0].startswith("--from")]
    return {part for words in from_context for part in words[:-1]}


def test_the_chart_and_the_operator_take_the_same_whole_versions() -> None:
    values = yaml.safe_load((ROOT / "charts/paceline/values.yaml").read_text())
    images = Settings().engine_image, Settings().proxy_image
    assert images == (values["engine"]["image"], values["proxy"]["image"])
    for image in (values["image"], *images):
        assert re.fullmatch(r"[a-z-]+:\d+\.\d+\.\d+", image)
