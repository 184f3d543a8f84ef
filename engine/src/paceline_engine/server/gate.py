"""Lets calls in or turns them away, as early as can be told, and counts what it decides."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_engine.server.errors import OverloadedError, UnavailableError
from paceline_engine.server.service import Service


class Gate:
    """Entrance of the generating routes.

    Args:
        service: State, limits and meters.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def check_open(self, prompts: int = 1) -> None:
        """Whether a call may enter, before anything of it is read.

        Args:
            prompts: How many it has; 1 while that is not known.

        Raises:
            UnavailableError: Loading, draining or dead.
        """
        try:
            self._service.check_open()
        except UnavailableError as refusal:
            for _ in range(prompts):
                self._service.metering.redirect(str(refusal.code))
            raise

    def check_room(self, prompts: int) -> None:
        """Whether that many more may wait, before they are tokenised.

        Raises:
            OverloadedError: Too many wait.
        """
        try:
            self._service.admission.check_requests(prompts)
        except OverloadedError as refusal:
            for _ in range(prompts):
                self._service.metering.offer(None)
            self._refuse(refusal, prompts)
            raise

    def enter(self, lengths: Sequence[int]) -> None:
        """Admits all prompts of a call, or none.

        Args:
            lengths: Tokens of each.

        Raises:
            OverloadedError: Too much waits.
            UnavailableError: Loading, draining or dead.
        """
        self.check_open(len(lengths))
        for length in lengths:
            self._service.metering.offer(length)
        try:
            self._service.admission.enter(lengths)
        except OverloadedError as refusal:
            self._refuse(refusal, len(lengths))
            raise

    def _refuse(self, refusal: OverloadedError, prompts: int) -> None:
        for _ in range(prompts):
            self._service.metering.refuse(str(refusal.code))
