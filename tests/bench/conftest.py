"""Benchmarks that fit or feed the simulator read the operator's pure core."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "operator" / "src"))
