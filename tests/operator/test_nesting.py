"""How deep a process may read: deep enough for what a server stores, never too deep to live."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paceline_operator.nesting import NEEDED

READ = """
import copy, json, resource, sys
from paceline_operator import nesting
levels = nesting.allow()
assert sys.getrecursionlimit() == levels
def nested(depth):
    return json.loads('{"a":' * depth + "1" + "}" * depth)
def bearable(act):
    try:
        return act() is not None
    except RecursionError:
        return False
deep = nested(min(10_000, levels // 2 - 500))
assert copy.deepcopy(deep) == deep and json.dumps(deep)
# Beyond what is allowed it is an error, not the end of the process.
for depth in (levels - 100, levels, 4 * levels, 400_000):
    for opened in ('{"a":', "["):
        closed = "}" if opened != "[" else "]"
        text = opened * depth + "1" + closed * depth
        if bearable(lambda: json.loads(text)):
            one, other = json.loads(text), json.loads(text)
            bearable(lambda: one == other), bearable(lambda: copy.deepcopy(one))
            bearable(lambda: json.dumps(one)), bearable(lambda: repr(one))
print(levels)
"""


@pytest.mark.parametrize(
    ("stack_kib", "needed"), [(8192, NEEDED), (4096, 11_000), (2048, 5_000)],
)  # fmt: skip
def test_no_depth_ends_the_process(stack_kib: int, needed: int) -> None:
    done = subprocess.run(
        ["bash", "-c", f'ulimit -S -s {stack_kib} && exec "$0" -c "$1"', sys.executable, READ],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= needed
