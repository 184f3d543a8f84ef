"""The demo's own commands, shown the way a user may paste them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from e2e.demo.manifest import Manifest
from e2e.kubectl import Kubectl

KIND = "infs"


def run(kubectl: Kubectl, *words: str) -> None:
    """Shows a command, runs it, and shows what it printed.

    Raises:
        KubectlError: It failed.
    """
    print(f"$ {kubectl.shown(*words)}", flush=True)
    plug_in = words[0] == "paceline"
    print((kubectl.paceline(*words[1:]) if plug_in else kubectl.run(*words)).rstrip(), flush=True)


def apply(kubectl: Kubectl, sample: Manifest) -> None:
    """Applies a sample, named from the checkout's root."""
    print(f"\n$ {kubectl.shown('apply', '-f', _file(sample))}", flush=True)
    print(kubectl.apply_file(sample.path).strip(), flush=True)


def apply_patched(kubectl: Kubectl, sample: Manifest, body: Mapping[str, Any]) -> None:
    """Applies a sample with something changed: the operator never sees it as it stands."""

    def patched(file: str) -> tuple[str, ...]:
        how = ("--type", "merge", "-p", _text(body), "-o", "yaml")
        return ("patch", "--local", "-f", file, *how)

    made, applied = kubectl.shown(*patched(_file(sample))), kubectl.shown("apply", "-f", "-")
    print(f"\n$ {made} | {applied}", flush=True)
    found = kubectl.run(*patched(str(sample.path)))
    print(kubectl.run("apply", "-f", "-", stdin=found).strip(), flush=True)


def patch(kubectl: Kubectl, name: str, body: Mapping[str, Any]) -> None:
    """Merge-patches an InferenceService."""
    run(kubectl, "patch", KIND, name, "--type", "merge", "-p", _text(body))


def _file(sample: Manifest) -> str:
    return f"manifests/samples/{sample.path.name}"


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))
