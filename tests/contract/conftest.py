"""Both members side by side: the only place where their sources meet."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "engine" / "src"))
