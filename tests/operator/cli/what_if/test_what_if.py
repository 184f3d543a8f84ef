"""`what-if` as users run it: files in, a table, JSON or Markdown out."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paceline_operator.cli.errors import CliError
from paceline_operator.cli.what_if.run import NO_OLD, Asked, compare, gather
from tests.operator.cli.test_main import run

ROOT = Path(__file__).parents[4]
EXAMPLE = (ROOT / "docs/what-if.md").read_text().split("## ")[1]
TABLE_LINES = 19
SPAN_S, RATE_RPS = 60, 2
MANIFEST = """
apiVersion: paceline.dev/v1alpha1
kind: InferenceService
metadata: {{name: chat}}
spec:
  model: {{uri: "file:///m.gguf"}}
  engine: {{device: {{type: Simulated, profile: llama-3-70b-a100-tp4, loadSeconds: 5}}}}
  slos:
    - {{name: first-token, metric: TTFT, targetMs: {ttft_ms}}}
    - {{name: cadence, metric: ITL, targetMs: 120}}
  scaling: {{minReplicas: {replicas}, maxReplicas: {replicas}, costPerReplicaHour: "2.5"}}
"""


@dataclass(frozen=True)
class Desk:
    """Files of a user."""

    place: Path

    @property
    def trace(self) -> Path:
        return self.place / "load.csv"

    def spec(self, name: str, *, replicas: int, ttft_ms: int = 2000) -> Path:
        file = self.place / name
        file.write_text(MANIFEST.format(replicas=replicas, ttft_ms=ttft_ms))
        return file

    def ask(self, *arguments: str) -> str:
        done = run(None, "what-if", "--trace", str(self.trace), "--seeds", "1", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A minute of long prompts: more than one replica can serve, less than three can."""
    found = Desk(tmp_path_factory.mktemp("what-if"))
    arrivals = [place / RATE_RPS for place in range(SPAN_S * RATE_RPS)]
    lines = ["arrival_s,prompt_tokens,output_tokens", *(f"{at_s:.2f},3000,40" for at_s in arrivals)]
    found.trace.write_text("\n".join(lines) + "\n")
    return found


@pytest.fixture(scope="module")
def pair(desk: Desk) -> tuple[str, ...]:
    """Three replicas, then one."""
    old, new = desk.spec("old.yaml", replicas=3), desk.spec("new.yaml", replicas=1)
    return "--file", str(new), "--old", str(old)


@pytest.fixture(scope="module")
def document(desk: Desk, pair: tuple[str, ...]) -> dict[str, Any]:
    """What `--json` says."""
    found: dict[str, Any] = json.loads(desk.ask(*pair, "--json"))
    return found


def attained(variant: dict[str, Any], name: str) -> float:
    """Share of an objective's samples in time, in percent."""
    (found,) = (each for each in variant["objectives"] if each["name"] == name)
    return 100 * float(found["attained"]["mean"])


def cells(text: str, label: str) -> list[str]:
    """The row of a table, however it is drawn, without its label."""
    (row,) = (line for line in text.splitlines() if line.strip("| ").startswith(label))
    rest = row.strip("| ").removeprefix(label)
    if "|" in row:
        return [cell.strip() for cell in rest.strip("| ").split("|")]
    return [cell.strip() for cell in rest.split("  ") if cell.strip()]


def test_fewer_replicas_cost_less_and_serve_worse(document: dict[str, Any]) -> None:
    old, new = document["old"], document["new"]
    assert old["replicaHours"]["mean"] == pytest.approx(3 * SPAN_S / 3600, rel=0.02)
    assert new["replicaHours"]["mean"] == pytest.approx(1 * SPAN_S / 3600, rel=0.02)
    for each in (old, new):
        assert each["cost"]["mean"] == pytest.approx(2.5 * each["replicaHours"]["mean"])
        assert each["requests"]["mean"] == SPAN_S * RATE_RPS
    assert attained(old, "first-token") >= 95
    assert attained(new, "first-token") < attained(old, "first-token") - 20
    held = {each["name"]: each["held"] for each in old["objectives"]}
    assert held["first-token"]
    assert not {each["name"]: each["held"] for each in new["objectives"]}["first-token"]


def test_an_objective_that_nothing_can_meet_is_missed(desk: Desk) -> None:
    absurd = desk.spec("absurd.yaml", replicas=3, ttft_ms=1)
    found = json.loads(desk.ask("-f", str(absurd), "--old", "none", "--json"))
    assert found["old"] is None
    assert attained(found["new"], "first-token") == 0
    assert attained(found["new"], "cadence") > 0
    (said,) = (note for note in found["new"]["notes"] if "SLOFeasible=False" in note)
    assert said.startswith("SLOFeasible=False for 100 % of the time: ")
    assert said.endswith("the TTFT target is 1 ms. More replicas cannot help.")


@pytest.mark.parametrize("flag", [None, "--markdown"])
def test_the_tables_say_what_the_document_says(
    flag: str | None, desk: Desk, pair: tuple[str, ...], document: dict[str, Any]
) -> None:
    said = desk.ask(*pair, *([flag] if flag else []))
    if flag:
        assert said.startswith("### What if: `chat`")
        said = said.replace("\\", "")
    old, new = document["old"], document["new"]
    hours = [each["replicaHours"]["mean"] for each in (old, new)]
    assert cells(said, "replica-hours") == [
        *(f"{h:.2f}" for h in hours),
        f"{hours[1] - hours[0]:+.2f}",
    ]
    assert cells(said, "cost")[:2] == [f"{each['cost']['mean']:.2f}" for each in (old, new)]
    row = cells(said, "first-token (TTFT p95 2.00 s)")
    shares = [attained(each, "first-token") for each in (old, new)]
    assert row[:2] == [f"{shares[0]:.1f} % held", f"{shares[1]:.1f} % missed"]
    assert cells(said, "requests refused")[:2] == [
        f"{each['refused']['mean']:.0f}" for each in (old, new)
    ]
    unwrapped = " ".join(said.split())
    assert document["verdict"] in unwrapped
    assert all(note in unwrapped for note in new["notes"])


async def test_a_trace_that_changes_while_it_is_played_is_one_line(desk: Desk) -> None:
    trace = desk.place / "changing.csv"
    trace.write_text(desk.trace.read_text())
    asked = Asked(new=desk.spec("changing.yaml", replicas=1), old=NO_OLD, trace=trace, seeds=1)
    gathered = await gather(asked, 0.0)
    trace.unlink()
    with pytest.raises(CliError, match=r"changing\.csv: No such file or directory"):
        compare(gathered, asked, lambda what, share: None)


def test_no_number_is_no_scale(desk: Desk, pair: tuple[str, ...]) -> None:
    done = run(None, "what-if", "--trace", str(desk.trace), *pair, "--scale", "nan")
    assert done.returncode == 2
    assert "Invalid value for '--scale'" in done.stderr


@pytest.mark.parametrize(("asked", "replicas", "code"), [(True, 1, 1), (True, 3, 0), (False, 1, 0)])
def test_a_miss_is_an_exit_code_where_it_is_asked_for(
    desk: Desk, asked: bool, replicas: int, code: int
) -> None:
    file = desk.spec("gate.yaml", replicas=replicas)
    given = ("what-if", "-f", str(file), "--old", NO_OLD, "--trace", str(desk.trace), "--json")
    done = run(None, *given, "--seeds", "1", *(["--exit-code"] if asked else []))
    assert (done.returncode, done.stderr) == (code, "")
    held = [each["held"] for each in json.loads(done.stdout)["new"]["objectives"]]
    assert all(held) is (replicas == 3)


@pytest.mark.parametrize(("metric", "tier"), [("ITL", "interactive"), ("TTFT", "batch")])
def test_an_objective_without_samples_does_not_pass(desk: Desk, metric: str, tier: str) -> None:
    """Either nothing is served, or nothing of its tier is asked for."""
    file = desk.spec("unproven.yaml", replicas=1)
    objectives = f"slos: [{{name: only, metric: {metric}, tier: {tier}, targetMs: 120}}]"
    file.write_text(re.sub(r"slos:\n.*\n.*\n", f"{objectives}\n", file.read_text()))
    given = ("what-if", "-f", str(file), "--old", NO_OLD, "--trace", str(desk.trace))
    done = run(None, *given, "--seeds", "1", "--kv-tokens", "16", "--exit-code")
    assert (done.returncode, done.stderr) == (1, "")
    assert cells(done.stdout, "only (") == [
        f"{metric} p95 120 ms{', batch tier' if tier == 'batch' else ''})",
        "no samples",
    ]
    assert "The new spec proves nothing, as only has no samples, and needs" in done.stdout
    assert "- No samples of only: " in done.stdout


def test_a_trace_may_say_what_is_of_the_batch_tier(desk: Desk) -> None:
    trace, file = desk.place / "tiers.csv", desk.spec("tiers.yaml", replicas=1)
    rows = [f"{at_s},500,10,{tier}" for at_s in range(60) for tier in ("interactive", "batch")]
    trace.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,tier", *rows]) + "\n")
    objective = "- {name: nightly, metric: TTFT, tier: batch, targetMs: 9000}"
    file.write_text(file.read_text().replace("  scaling:", f"    {objective}\n  scaling:"))
    given = ("what-if", "-f", str(file), "--old", NO_OLD, "--trace", str(trace))
    done = run(None, *given, "--seeds", "1", "--exit-code")
    assert (done.returncode, done.stderr) == (0, "")
    assert cells(done.stdout, "nightly (")[-1] == "100.0 % held"


def test_what_is_no_namespace_is_one_line(pair: tuple[str, ...]) -> None:
    series = ("--prometheus", "http://127.0.0.1:1", "--namespace", 'a",pod="b')
    done = run(None, "what-if", *pair, *series)
    assert done.returncode == 2
    assert "is no name of a namespace: write " in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_page_shows_a_table_of_today(desk: Desk, pair: tuple[str, ...], tmp_path: Path) -> None:
    """Its figures are those of a day; its rows, sentences and commands have to be of today."""
    commands, shown = re.findall(r"```(?:sh|text)\n(.*?)```", EXAMPLE, re.S)
    assert [line.split("  ")[0] for line in shown.splitlines()[2:TABLE_LINES]] == [
        line.split("  ")[0] for line in desk.ask(*pair).splitlines()[2:TABLE_LINES]
    ]
    *prepare, asked = commands.splitlines()
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    subprocess.run(["sh", "-ec", "\n".join(prepare)], cwd=tmp_path, check=True)
    assert (tmp_path / "fleet.yaml").read_text() != (tmp_path / "new.yaml").read_text()
    requests = len((tmp_path / "load.csv").read_text().splitlines()) - 1
    assert f" {requests} requests " in shown.splitlines()[0]
    assert asked == "kubectl paceline what-if -f new.yaml --old fleet.yaml --trace load.csv"
    for note in ("Step time: profile", "KV cache: 430,000 tokens", "Cold start: 15 s"):
        assert f"- {note}" in shown
