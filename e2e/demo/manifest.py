"""What the demo needs to know of a sample manifest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A sample `InferenceService` with one TTFT and one ITL objective.

    Attributes:
        path: File to apply.
        name: Object's name, and the Service's.
        model: Name that clients send.
        targets_ms: Objective's name -> target, in the order of the spec.
        ttft: Name of the TTFT objective.
        itl: Name of the ITL objective.
    """

    path: Path
    name: str
    model: str
    targets_ms: dict[str, int]
    ttft: str
    itl: str

    @property
    def ttft_target_ms(self) -> int:
        """Target of the TTFT objective."""
        return self.targets_ms[self.ttft]

    @property
    def itl_target_ms(self) -> int:
        """Target of the ITL objective."""
        return self.targets_ms[self.itl]


def read(name: str) -> Manifest:
    """Reads `manifests/samples/<name>.yaml`."""
    path = SAMPLES / f"{name}.yaml"
    body = yaml.safe_load(path.read_text())
    spec, object_name = body["spec"], body["metadata"]["name"]
    by_metric = {slo["metric"]: slo["name"] for slo in spec["slos"]}
    return Manifest(
        path=path,
        name=object_name,
        model=spec.get("model", {}).get("servedName", object_name),
        targets_ms={slo["name"]: slo["targetMs"] for slo in spec["slos"]},
        ttft=by_metric["TTFT"],
        itl=by_metric["ITL"],
    )
