"""Signs of life while the model loads and the loop cannot speak."""

from __future__ import annotations

import threading
from types import TracebackType

from paceline_engine.engine.channel import Channel
from paceline_engine.engine.loop import HEARTBEAT_S
from paceline_engine.message import LoopState, StepReport


class LoadingHeartbeat:
    """Beats once a second from a thread; inside the block the channel belongs to it.

    Args:
        channel: To the server process.
        state: What each beat reports.
    """

    def __init__(self, channel: Channel, state: LoopState) -> None:
        self._channel = channel
        self._report = StepReport(outputs=(), state=state)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="loading-heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._done.wait(HEARTBEAT_S):
            self._channel.send(self._report)
