"""Bodies of /v1/models, as OpenAI and vLLM write them."""

from __future__ import annotations

from typing import Literal

import msgspec


class ModelPermission(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done with a model; OpenAI dropped it, clients of vLLM still read it."""

    id: str
    object: Literal["model_permission"] = "model_permission"
    created: int
    allow_create_engine: bool = False
    allow_sampling: bool = True
    allow_logprobs: bool = True
    allow_search_indices: bool = False
    allow_view: bool = True
    allow_fine_tuning: bool = False
    organization: str = "*"
    group: str | None = None
    is_blocking: bool = False


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """The served model; `root` is its name too, never a path of the server's."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "paceline"
    root: str
    parent: str | None = None
    max_model_len: int
    permission: tuple[ModelPermission, ...]


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of GET /v1/models."""

    object: Literal["list"] = "list"
    data: tuple[ModelCard, ...]


def model_card(name: str, created: int, max_model_len: int) -> ModelCard:
    """Card of a model.

    Args:
        name: Name that clients use.
        created: Unix time.
        max_model_len: Prompt plus output tokens of one request at most.
    """
    permission = ModelPermission(id=f"modelperm-{name}", created=created)
    return ModelCard(
        id=name, created=created, root=name, max_model_len=max_model_len, permission=(permission,)
    )
