"""One object again and again, through outages and ends of logins."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from paceline_operator.cli.errors import AwayError, LoginError
from paceline_operator.cli.plain_text import one_line
from paceline_operator.cli.service import Reader, Service, connected

EVERY_S = 2.0


async def looks(
    name: str, namespace: str | None, context: str | None, every_s: float = EVERY_S
) -> AsyncIterator[Service]:
    """The object as it is now, every few seconds, without end.

    A server that is away later is asked again; of each such time the user hears once. A login that
    ends is taken anew from the kubeconfig.

    Args:
        name: Of the object.
        namespace: None for that of the context.
        context: None for the current one.
        every_s: Time between two looks.

    Raises:
        LoginError: The login is refused at once, or again after the kubeconfig was read anew.
        AwayError: The server cannot be asked from the beginning.
        CliError: It cannot be read.
    """
    was_taken, is_first = False, True
    while True:
        try:
            async with connected(namespace, context) as reader:
                async for service in _looks(reader, name, every_s, is_first=is_first):
                    was_taken, is_first = True, False
                    yield service
        except LoginError:
            if not was_taken:
                raise
            was_taken = False


async def _looks(
    reader: Reader, name: str, every_s: float, *, is_first: bool
) -> AsyncIterator[Service]:
    """Over one connection."""
    is_away = False
    while True:
        try:
            service = await reader.read(name)
        except AwayError as error:
            if is_first:
                raise
            if not is_away:
                sys.stderr.write(f"{one_line(str(error))}; asking again\n")
            is_away = True
        else:
            is_first = is_away = False
            yield service
        await asyncio.sleep(every_s)
