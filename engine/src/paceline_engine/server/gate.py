"""Lets calls in or turns them away, as early as can be told, and counts what it decides."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_engine.request import Tier
from paceline_engine.server.errors import NeverFitsError, OverloadedError, UnavailableError
from paceline_engine.server.metric_names import NEVER_FITS
from paceline_engine.server.service import Service
from paceline_engine.server.ticket import Ask, Ticket


class Gate:
    """Entrance of the generating routes.

    Args:
        service: State, limits and meters.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def check_open(self, requests: int = 1, tier: Tier | None = None) -> None:
        """Whether a call may enter, before anything of it is read.

        Args:
            requests: How many it brings; 1 while that is not known.
            tier: Its tier; None while that is not known.

        Raises:
            UnavailableError: Loading, draining or dead.
        """
        try:
            self._service.check_open()
        except UnavailableError as refusal:
            self._service.metering.redirect(str(refusal.code), tier, requests)
            raise

    def redirect_unread(self, refusal: UnavailableError) -> None:
        """Counts a call that was turned away before its body was read: another replica serves."""
        self._service.metering.redirect(str(refusal.code), None)

    def check_room(self, prompts: int, choices: int = 1, tier: Tier = Tier.INTERACTIVE) -> None:
        """Whether the requests of a call may wait, before its prompts are tokenised.

        Args:
            prompts: Its prompts.
            choices: Answers to each of them.
            tier: Its tier.

        Raises:
            NeverFitsError: More than may ever wait.
            OverloadedError: Too many wait.
        """
        try:
            self._service.admission.check_requests(prompts * choices, tier)
        except NeverFitsError:
            self._exclude(prompts * choices, tier)
            raise
        except OverloadedError as refusal:
            self._service.metering.offer(tier, None, choices, prompts=prompts)
            self._refuse(refusal, prompts * choices, tier)
            raise

    def enter(
        self, asks: Sequence[Ask], tier: Tier = Tier.INTERACTIVE, tenant: str = ""
    ) -> list[Ticket]:
        """Admits all requests of a call, or none.

        Args:
            asks: One for each prompt.
            tier: The call's.
            tenant: Whose it is.

        Returns:
            A ticket for each choice of the first prompt, then of the second, and so on.

        Raises:
            NeverFitsError: More than this engine can ever hold.
            OverloadedError: Too much waits.
            UnavailableError: Loading, draining or dead.
        """
        requests = sum(ask.choices for ask in asks)
        self.check_open(requests, tier)
        try:
            tickets = self._service.admission.enter(asks, tier, tenant)
        except NeverFitsError:
            self._exclude(requests, tier)
            raise
        except OverloadedError as refusal:
            self._offer(asks, tier)
            self._refuse(refusal, requests, tier)
            raise
        self._offer(asks, tier)
        return tickets

    def _offer(self, asks: Sequence[Ask], tier: Tier) -> None:
        for ask in asks:
            self._service.metering.offer(tier, ask.prompt_tokens, ask.choices)

    def _refuse(self, refusal: OverloadedError, requests: int, tier: Tier) -> None:
        self._service.metering.refuse(str(refusal.code), tier, requests)

    def _exclude(self, requests: int, tier: Tier) -> None:
        """Counts what no replica like this one can hold: no load, and no sample."""
        self._service.metering.metrics.of(tier).rejected(NEVER_FITS, requests)
