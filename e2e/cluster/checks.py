"""placeholder"""

from e2e.cluster.progress import Say
from e2e.cluster.settings import Settings


def check(settings: Settings, say: Say) -> None: ...
