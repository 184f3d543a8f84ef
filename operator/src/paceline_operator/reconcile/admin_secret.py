"""The Secret with the admin token: read by name every now and then, trusted if ours."""

from __future__ import annotations

import logging
import secrets
from base64 import b64decode

from paceline_operator.domain.arguments import TOKEN_FILE
from paceline_operator.domain.belonging import is_child
from paceline_operator.domain.names import derive
from paceline_operator.domain.pods import Problem
from paceline_operator.kube.client import Object
from paceline_operator.kube.errors import ForbiddenError, UnauthorizedError, UnavailableError
from paceline_operator.kube.read import fetch
from paceline_operator.kube.resource import SECRET
from paceline_operator.kube.store import Key
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.session import Session

log = logging.getLogger(__name__)

MISSING_RIGHT = "MissingRight"
AGE_S = 20.0
"""Secrets are not watched, so as never to need the right to list them; reading one is cheap."""


async def refresh(ctx: Context, key: Key, uid: str, session: Session) -> None:
    """Read the Secret unless that was done lately.

    A token is taken from a Secret of this object alone; without one, that of before stays, or
    the first is made. One that is missing, or someone else's, is looked for in every pass: the
    pass after it went or came finds that.

    A server that refuses the right to read it is asked again as often, and the status says so.

    Args:
        ctx: Where to read.
        key: The object.
        uid: Its UID.
        session: Gets `secret`, None where it is missing or someone else's, when it was read,
            `token`, and `missing_right`.

    Raises:
        UnavailableError, UnauthorizedError: The server is away, or does not know us just now, and
            no token is known yet.
        KubeError: Any other refusal.
    """
    now_s = ctx.clock()
    if session.secret is not None and now_s - session.secret_read_at_s < AGE_S:
        return
    try:
        found = await fetch(ctx.client, SECRET, key[0], derive(key[1], "admin"))
    except (UnavailableError, UnauthorizedError) as error:
        if session.token is None:
            raise
        log.warning("%s/%s: its Secret is not read again: %s", *key, error)
        return
    except ForbiddenError as error:
        # A token that is known goes on being used; without one, a new one would lock us out.
        log.warning("%s/%s: its Secret may not be read: %s", *key, error)
        session.missing_right, session.secret_read_at_s = Problem(MISSING_RIGHT, str(error)), now_s
        return
    ours = found if found is not None and is_child(found, uid, derive(key[1])) else None
    session.secret, session.secret_read_at_s, session.missing_right = ours, now_s, None
    session.token = _token(ours) or session.token or secrets.token_urlsafe(32)


def _token(secret: Object | None) -> str | None:
    encoded = ((secret or {}).get("data") or {}).get(TOKEN_FILE)
    return b64decode(encoded).decode(errors="replace").strip() if encoded else None
