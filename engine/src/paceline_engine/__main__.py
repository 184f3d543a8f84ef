"""`python -m paceline_engine`: the same as the console script."""

from __future__ import annotations

from paceline_engine.main import main

if __name__ == "__main__":
    raise SystemExit(main())
