"""The validation runs the operator's pure core; these tests run in either environment."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "operator" / "src"))
