"""Fails where anything generated or copied differs from its source.

Each check is printed; the last line is `verify: ok`, or `verify: failed` with exit code 1
after what differs and what to do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from e2e.cluster.errors import ClusterError
from tests.support.tree import ROOT
from tests.verify import behaviours, conformance_page, documents, generated, metrics_page, samples
from tests.verify.check import Check


def report(checks: Iterable[Check]) -> bool:
    """Run and print each check; whether all hold."""
    ok = True
    for check in checks:
        problems = _problems(check)
        print(f"{'not ok' if problems else 'ok'}: {check.name}", flush=True)
        for line in problems:
            print(f"    {line}")
        if problems:
            ok = False
            print(f"    remedy: {check.remedy}", flush=True)
    print(f"verify: {'ok' if ok else 'failed'}")
    return ok


def _problems(check: Check) -> list[str]:
    """What a check found, or why it could not look."""
    try:
        return check.run()
    except (ClusterError, TimeoutError, subprocess.CalledProcessError) as error:
        return str(error).splitlines()


if __name__ == "__main__":
    found = [
        check
        for part in (generated, behaviours, metrics_page, conformance_page, documents, samples)
        for check in part.checks(ROOT)
    ]
    sys.exit(0 if report(found) else 1)
