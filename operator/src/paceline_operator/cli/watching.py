"""One object again and again; a login that ends meanwhile is taken anew from the kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from paceline_operator.cli.errors import LoginError
from paceline_operator.cli.service import Service, connected

EVERY_S = 2.0


async def looks(
    name: str, namespace: str | None, context: str | None, every_s: float = EVERY_S
) -> AsyncIterator[Service]:
    """The object as it is now, every few seconds, without end.

    Args:
        name: Of the object.
        namespace: None for that of the context.
        context: None for the current one.
        every_s: Time between two looks.

    Raises:
        LoginError: The login is refused at once, or again after the kubeconfig was read anew.
        CliError: It cannot be read.
    """
    was_taken = False
    while True:
        try:
            async with connected(namespace, context) as reader:
                while True:
                    service = await reader.read(name)
                    was_taken = True
                    yield service
                    await asyncio.sleep(every_s)
        except LoginError:
            if not was_taken:
                raise
            was_taken = False
