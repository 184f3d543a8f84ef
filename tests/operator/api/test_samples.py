"""Samples: what each of them shows is really in it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline_operator.api.choice import DeviceType, Mode, RolloutStrategy, SloMetric
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.domain import arguments
from paceline_operator.domain.pinned import Start
from paceline_operator.domain.platform import Platform
from paceline_operator.domain.pod import engine_template
from tests.support.chart import CHART
from tests.support.tree import ROOT

FOLDER = ROOT / "manifests/samples"
SAMPLES = sorted(FOLDER.glob("*.yaml"))
START = Start(image="e", defaults=arguments.LATEST)
PROFILES = ROOT / "engine/src/paceline_engine/runner/profiles.py"


def manifest(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def spec(name: str) -> InferenceServiceSpec:
    return InferenceServiceSpec.model_validate(manifest(FOLDER / f"{name}.yaml")["spec"])


def prefixes() -> tuple[str, ...]:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return tuple(values["model"]["hostPath"]["prefixes"])


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_operator_can_serve_it(path: Path) -> None:
    """With host paths as the chart allows them once they are enabled."""
    parsed = InferenceServiceSpec.model_validate(manifest(path)["spec"])
    arguments.check(parsed)
    platform = Platform(engine_image="e", proxy_image="p", host_path_prefixes=prefixes())
    pod = engine_template("a", parsed, platform, START)["spec"]
    host_paths = [volume for volume in pod["volumes"] if "hostPath" in volume]
    assert len(host_paths) == (0 if parsed.model.uri is None else 1)
    assert parsed.template is None


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_it_has_objectives_on_both_latencies(path: Path) -> None:
    parsed = InferenceServiceSpec.model_validate(manifest(path)["spec"])
    assert {slo.metric for slo in parsed.slos} == {SloMetric.TTFT, SloMetric.ITL}
    assert {slo.percentile for slo in parsed.slos} == {95}


def test_minimal_is_as_short_as_promised() -> None:
    assert len((FOLDER / "minimal.yaml").read_text().splitlines()) <= 20


def test_the_real_fleet_is_tuned_but_not_scaled() -> None:
    real = spec("smollm2")
    assert manifest(FOLDER / "smollm2.yaml")["metadata"]["name"] == "smollm2"
    assert real.engine.device.type is DeviceType.CPU
    assert (real.tuning.mode, real.scaling.effective_mode, real.replicas) == (
        Mode.AUTO, Mode.OFF, 2,
    )  # fmt: skip
    assert real.rollout.strategy is RolloutStrategy.REPLACE
    budget = real.engine.batch_tokens
    assert budget.initial is not None
    assert budget.min is not None
    assert budget.initial >= 4 * budget.min


def test_the_simulated_fleet_has_room_for_both_knobs() -> None:
    fleet = spec("fleet-simulated")
    assert fleet.engine.device.type is DeviceType.SIMULATED
    assert fleet.engine.device.load_seconds == 10
    assert fleet.scaling.down_window_seconds == 40
    assert fleet.scaling.effective_mode is Mode.AUTO
    assert fleet.scaling.max_replicas is not None
    assert fleet.scaling.max_replicas >= 3 * fleet.scaling.min_replicas
    budget = fleet.engine.batch_tokens
    assert budget.initial is not None
    assert budget.initial < budget.max


def test_the_simulated_fleet_starts_below_the_budget_its_objective_allows() -> None:
    """By the law of its profile: T(initial) is far below the ITL target, T(max) above it."""
    fleet = spec("fleet-simulated")
    law = profile(str(fleet.engine.device.profile))
    (target,) = (slo.target_ms for slo in fleet.slos if slo.metric is SloMetric.ITL)

    def step_ms(tokens: int) -> float:
        floor = law["floor_ms"] + law["floor_per_token_ms"] * tokens
        return max(floor, law["base_ms"] + law["per_token_ms"] * tokens)

    budget = fleet.engine.batch_tokens
    assert budget.initial is not None
    assert step_ms(2 * budget.initial) < target < step_ms(budget.max)


def profile(name: str) -> dict[str, float]:
    """Coefficients of a profile, read from the engine's source without importing it."""
    tree = ast.parse(PROFILES.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    laws = [n for n in ast.walk(value) if isinstance(n, ast.Call) and is_law(n)]
                    return {k.arg or "": ast.literal_eval(k.value) for k in laws[0].keywords}
    raise AssertionError(f"the engine has no profile {name}")


def is_law(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "StepTimeLaw"
