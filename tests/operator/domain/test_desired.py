"""Rendering, held against files: what changes here restarts every fleet at an upgrade.

A golden file is the rendering of its manifest in `CASES`. To accept a change on purpose, run
`python -m tests.operator.domain.test_desired` and look at the difference before committing it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st
from pydantic import ValidationError

from paceline_operator.api.choice import RolloutStrategy
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.domain import arguments, desired, tunables
from paceline_operator.domain.desired import Owner, RenderInput, children, startup_hash
from paceline_operator.domain.difference import differs
from paceline_operator.domain.errors import InvalidOverlayError, SpecError
from paceline_operator.domain.names import ANNOTATION_TEMPLATE, LABEL_SERVICE
from paceline_operator.domain.overlay import MERGE_KEYS
from paceline_operator.domain.pinned import Pinned
from paceline_operator.domain.platform import Platform
from tests.support.fleet import spec

GOLDEN = Path(__file__).parent / "golden"
PLATFORM = Platform(
    engine_image="engine:1",
    proxy_image="haproxy:2.6",
    engine_pod_overlay={"spec": {"nodeSelector": {"pool": "inference"}}},
    host_path_prefixes=("/models",),
)
CASES: dict[str, dict[str, Any]] = {
    "simulated": {
        "engine": {
            "device": {"type": "Simulated", "profile": "smollm2-135m-cpu", "loadSeconds": 10},
            "batchTokens": {"min": 64, "max": 1024, "initial": 128},
        },
        "slos": [{"name": "ttft", "metric": "TTFT", "targetMs": 500}],
        "scaling": {"minReplicas": 2, "maxReplicas": 4},
    },
    "cpu-service": {
        "model": {"uri": "file:///models/m.gguf", "servedName": "smol"},
        "engine": {"device": {"type": "CPU"}, "maxNumSeqs": 16},
        "routing": {"mode": "Service"},
        "rollout": {"strategy": "Replace", "drainSeconds": 60},
        "resources": {"requests": {"cpu": "700m", "memory": "1Gi"}},
        "template": {"spec": {"containers": [{"name": "engine", "env": [{"name": "A"}]}]}},
    },
    "cpu-directory": {
        "model": {"uri": "file:///models/Qwen2.5-0.5B-Instruct"},
        "engine": {"device": {"type": "CPU"}},
        "routing": {"mode": "Service"},
    },
}


def given(fields: dict[str, Any], **more: Any) -> RenderInput:
    parsed = spec(**fields)
    defaults: dict[str, Any] = {
        "owner": Owner(name="chat", namespace="team-a", uid="u1"),
        "spec": parsed,
        "platform": PLATFORM,
        "token": "secret",
        "live": tunables.initial(parsed),
    }
    return RenderInput(**{**defaults, **more})


@pytest.mark.parametrize("name", CASES)
def test_rendering_is_what_it_was(name: str) -> None:
    expected = list(yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()))
    assert children(given(CASES[name])) == expected


def by_kind(fields: dict[str, Any], **more: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(c["kind"], c["metadata"]["name"]): c for c in children(given(fields, **more))}


def template(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = by_kind(fields, **more)["Deployment", "chat"]["spec"]["template"]
    return found


LIMIT = "--max-queue-seconds=slo"
SIMULATED, CPU = CASES["simulated"], CASES["cpu-service"]


def test_every_child_is_owned_and_labelled() -> None:
    for child in children(given(SIMULATED)):
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == ("u1", True)
        assert child["metadata"]["labels"][LABEL_SERVICE] == "chat"


def test_live_values_and_initial_do_not_touch_the_template() -> None:
    knobs = Tunables(max_num_batched_tokens=512, max_num_running_seqs=9)
    moved = template(SIMULATED, live=tunables.Agreed(9, knobs, ()))
    engine = {**SIMULATED["engine"], "batchTokens": {"min": 64, "max": 1024, "initial": 256}}
    assert template(SIMULATED) == moved == template({**SIMULATED, "engine": engine})


def test_objectives_and_limits_do_not_touch_the_template() -> None:
    other = {**SIMULATED, "slos": [], "scaling": {"minReplicas": 1, "maxReplicas": 9}}
    assert template(other) == template(SIMULATED)


def test_a_ceiling_does() -> None:
    engine = {**SIMULATED["engine"], "batchTokens": {"max": 2048}}
    assert template({**SIMULATED, "engine": engine}) != template(SIMULATED)


def test_the_template_carries_its_own_hash() -> None:
    one = template(SIMULATED)["metadata"]["annotations"][ANNOTATION_TEMPLATE]
    other = template(CPU)["metadata"]["annotations"][ANNOTATION_TEMPLATE]
    assert one != other


def test_a_new_default_image_restarts_nothing_that_runs() -> None:
    known = Pinned(image="engine:0", startup=startup_hash(spec(**SIMULATED)))
    container = template(SIMULATED, pinned=known)["spec"]["containers"][0]
    assert container["image"] == "engine:0"
    changed = {**SIMULATED, "engine": {**SIMULATED["engine"], "maxNumSeqs": 8}}
    container = template(changed, pinned=known)["spec"]["containers"][0]
    assert container["image"] == "engine:1"


def without_a_limit(fields: dict[str, Any]) -> Pinned:
    """What an operator remembers that knew no limit on waiting."""
    return Pinned(image="engine:1", startup=startup_hash(spec(**fields)))


@pytest.mark.behaviour(
    "a new default argument restarts no fleet: it comes with the next start that the spec asks for",
    report="an operator's upgrade that renders another pod template replaces every pod there is",
)
@pytest.mark.parametrize("name", CASES)
def test_a_new_default_argument_restarts_nothing_that_runs(name: str) -> None:
    fields = CASES[name]
    known = without_a_limit(fields)
    kept = template(fields, pinned=known)["spec"]["containers"][0]["args"]
    assert LIMIT not in kept
    assert desired.pinned(given(fields, pinned=known)).defaults == 0
    assert [*kept, LIMIT] == template(fields)["spec"]["containers"][0]["args"]
    engine = {**fields["engine"], "maxNumSeqs": 8}
    changed = {**fields, "engine": engine}
    assert LIMIT in template(changed, pinned=known)["spec"]["containers"][0]["args"]
    assert desired.pinned(given(changed, pinned=known)).defaults == arguments.LATEST


def test_an_objective_restarts_nothing_in_a_fleet_of_either_generation() -> None:
    fields = {**CPU, "slos": [{"name": "first", "metric": "TTFT", "targetMs": 500}]}
    for known in (Pinned(), without_a_limit(CPU)):
        assert template(fields, pinned=known) == template(CPU, pinned=known)


def test_an_image_chosen_ahead_of_a_start_is_the_one_it_is_started_with() -> None:
    before = Pinned(image="engine:0", startup="of before")
    ahead = before.expecting(desired.pinned(given(SIMULATED)))
    upgraded = replace(PLATFORM, engine_image="engine:2")
    container = template(SIMULATED, pinned=ahead, platform=upgraded)["spec"]["containers"][0]
    assert container["image"] == "engine:1"


def test_what_is_rendered_is_what_is_pinned() -> None:
    once = desired.pinned(given(SIMULATED))
    assert once.image == "engine:1"
    upgraded = replace(PLATFORM, engine_image="engine:2")
    assert desired.pinned(given(SIMULATED, platform=upgraded, pinned=once)) == once


def test_the_replicas_of_the_proxy_are_declared_those_of_the_engines_never() -> None:
    made = by_kind(SIMULATED)
    assert made["Deployment", "chat-proxy"]["spec"]["replicas"] == 1
    assert "replicas" not in made["Deployment", "chat"]["spec"]


PROXY_PARTS = {("ConfigMap", "chat-proxy"), ("Deployment", "chat-proxy")}


@pytest.mark.parametrize("found", [(), ("ConfigMap",), ("ConfigMap", "Deployment")])
def test_a_proxy_that_is_done_without_is_at_rest_as_far_as_it_is_there(
    found: tuple[str, ...],
) -> None:
    direct = {**SIMULATED, "routing": {"mode": "Service"}}
    made = by_kind(direct, proxy_found=frozenset(found))
    assert made.keys() & PROXY_PARTS == {(kind, "chat-proxy") for kind in found}
    if "Deployment" in found:
        spec_ = made["Deployment", "chat-proxy"]["spec"]
        assert spec_ == {**by_kind(SIMULATED)["Deployment", "chat-proxy"]["spec"], "replicas": 0}


def test_the_replicas_of_a_proxy_that_someone_else_scales_are_not_declared() -> None:
    made = by_kind(SIMULATED, proxy_replicas=None)["Deployment", "chat-proxy"]["spec"]
    assert "replicas" not in made


def test_the_service_leads_to_the_engines_until_an_awaited_proxy_serves() -> None:
    waiting = by_kind(SIMULATED, proxy_awaited=True)["Service", "chat"]["spec"]["selector"]
    assert waiting["paceline.dev/component"] == "engine"


def test_service_leads_to_the_proxy_or_to_the_pods() -> None:
    proxied = by_kind(SIMULATED)["Service", "chat"]["spec"]["selector"]
    direct = by_kind(CPU)["Service", "chat"]["spec"]["selector"]
    assert proxied["paceline.dev/component"] == "proxy"
    assert direct["paceline.dev/component"] == "engine"


def test_no_service_offers_the_admin_port() -> None:
    services = [c for c in children(given(SIMULATED)) if c["kind"] == "Service"]
    ports = {port["port"] for each in services for port in each["spec"]["ports"]}
    assert ports == {8000, 8001}


def test_the_pod_has_time_to_drain() -> None:
    assert template(CPU)["spec"]["terminationGracePeriodSeconds"] == 5 + 60 + 10


def test_overlays_lie_on_top_the_installations_first() -> None:
    pod = template(CPU)["spec"]
    assert pod["nodeSelector"] == {"pool": "inference"}
    assert {"name": "A"} in pod["containers"][0]["env"]


def test_the_strategy_is_the_resolved_one() -> None:
    known = Pinned(strategy=RolloutStrategy.REPLACE)
    spec_ = by_kind(SIMULATED, pinned=known)["Deployment", "chat"]["spec"]
    assert spec_["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


KEYS = st.sampled_from(
    [*MERGE_KEYS, "metadata", "spec", "labels", "annotations", "name", "mountPath",
     "containerPort", "resources", "requests", "template"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["engine", "admin", "1", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def rendered(fields: dict[str, Any]) -> list[dict[str, Any]] | str:
    """The children, or why there are none; all but a refusal is a failure of the test."""
    try:
        return children(given(fields))
    except ValidationError:
        return "NoSpec"
    except SpecError as error:
        return error.reason


@pytest.mark.behaviour(
    "whatever the schema lets through is rendered, or refused with a reason",
    report="an env entry with an object as its name, or pvc://[bad, ended every pass unsaid",
)
@hypothesis.given(st.dictionaries(st.sampled_from(["metadata", "spec"]), JSON), JSON)
def test_any_template_is_rendered_or_refused(overlay: dict[str, Any], pod: Any) -> None:
    for each in (overlay, {"spec": {"containers": pod}}, {"spec": {"containers": [pod]}}):
        found = rendered({**SIMULATED, "template": each})
        if isinstance(found, str):
            assert found == "InvalidTemplate"
            continue
        for one, other in zip(found, children(given(SIMULATED)), strict=True):
            assert not differs(one, one)
            differs(one, other)


@hypothesis.given(st.text(alphabet="[]%0aZ:/@.#?\u2100-", max_size=12))
def test_any_model_is_rendered_or_refused(rest: str) -> None:
    for scheme in ("pvc", "file", "hf"):
        found = rendered({**CPU, "model": {"uri": f"{scheme}://a{rest}"}})
        assert not isinstance(found, str) or found in ("UnsupportedModel", "NoSpec")


def test_a_template_nested_without_end_is_refused() -> None:
    container: dict[str, Any] = {"name": "engine"}
    for _ in range(400):
        container = {"name": "engine", "containers": [container]}
    with pytest.raises(InvalidOverlayError, match="levels deep"):
        children(given({**SIMULATED, "template": {"spec": {"containers": [container]}}}))


def write_golden() -> None:
    """Accept the present rendering."""
    GOLDEN.mkdir(exist_ok=True)
    for name, fields in CASES.items():
        text = yaml.safe_dump_all(children(given(fields)), sort_keys=False)
        (GOLDEN / f"{name}.yaml").write_text(text)


if __name__ == "__main__":
    write_golden()
