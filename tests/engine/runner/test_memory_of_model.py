"""The memory plan beside what the kernel counts, with the real model in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paceline_engine.memory import MIB, SLACK_RATIO
from paceline_engine.runner.memory_plan import plan_memory
from paceline_engine.weights import read_model_config
from tests.support.model_file import model_file
from tests.support.tree import ROOT

BUDGET, SEQUENCES, BLOCKS, LENGTH = 512, 32, 300, 1024

# Loads, writes every KV block, runs a step that uses the whole budget with log probabilities of
# prompt and output, and a step of decodes; prints what was resident and what was at most.
PROBE = f"""
import json, sys
from paceline_engine.runner.cpu import CpuRunner
from paceline_engine.sampling import SamplingParams
from paceline_engine.server.memory_watch import resident_bytes
from tests.support.steps import cpu_config, generate

def most():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10

config = cpu_config(
    sys.argv[1], vocab_size=49152, budget={BUDGET}, running={SEQUENCES},
    num_kv_blocks={BLOCKS}, max_model_len={LENGTH},
)
runner = CpuRunner(config)
loaded = resident_bytes()
runner.wipe(range(config.num_kv_blocks))
prompts = [[100 * i + j for j in range({BUDGET // SEQUENCES})] for i in range({SEQUENCES})]
settings = SamplingParams(
    temperature=1.0, top_p=0.9, logprobs=5, prompt_logprobs=5, max_tokens=2, ignore_eos=True
)
outputs, _ = generate(runner, config, prompts, [settings] * len(prompts))
assert all(len(output) == 2 for output in outputs)
print(json.dumps({{"loaded": loaded, "after": resident_bytes(), "most": most()}}))
"""


@pytest.mark.behaviour(
    "with weights loaded, the KV pool written and full steps run, memory is what was planned",
    report="engines killed for memory under load, long after a start that looked well",
)
@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_plan_holds() -> None:
    """Above the plan only by the share kept free for that, and not below it by luck."""
    plan = plan_memory(
        read_model_config(model_file()),
        available_bytes=1 << 40,
        max_model_len=LENGTH,
        max_num_batched_tokens=BUDGET,
        max_num_seqs=SEQUENCES,
        block_size=16,
        num_kv_blocks=BLOCKS,
    )
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(model_file())],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=390,
        check=True,
    )
    measured = json.loads(done.stdout.splitlines()[-1])
    told = f"plan {plan.arithmetic}, measured MiB { {k: v // MIB for k, v in measured.items()} }"
    assert measured["loaded"] == pytest.approx(plan.runtime_bytes + plan.weight_bytes, rel=0.1), (
        told
    )
    assert measured["most"] <= plan.total_bytes / (1 - SLACK_RATIO), told
    assert measured["after"] >= 0.9 * plan.total_bytes, told
