"""Requests that wait beside another one of the same prompt, to share what it computes."""

from __future__ import annotations

from paceline_engine.request import Request, Tier
from paceline_engine.scheduler.sequence import Sequence


class Forks:
    """Children by parent. A child waits here until its parent has its prompt, or is gone."""

    def __init__(self) -> None:
        self._children: dict[int, dict[int, Sequence]] = {}
        self._parents: dict[int, int] = {}
        self._num_batch = 0
        self._released: dict[int, list[Sequence]] = {}

    def __len__(self) -> int:
        return len(self._parents)

    def count(self, tier: Tier) -> int:
        """Waiting children of a tier; each has one token to compute, the prompt's last."""
        return self._num_batch if tier is Tier.BATCH else len(self) - self._num_batch

    def get(self, request_id: int) -> Sequence | None:
        """The waiting child of that id."""
        parent_id = self._parents.get(request_id)
        return None if parent_id is None else self._children[parent_id][request_id]

    def add(self, child: Sequence, parent_id: int) -> None:
        """Lets a child wait beside its parent."""
        self._children.setdefault(parent_id, {})[child.request_id] = child
        self._parents[child.request_id] = parent_id
        self._num_batch += child.request.tier is Tier.BATCH

    def remove(self, request_id: int) -> Sequence | None:
        """Takes a child out; None if it does not wait here."""
        if (parent_id := self._parents.pop(request_id, None)) is None:
            return None
        siblings = self._children[parent_id]
        child = siblings.pop(request_id)
        self._num_batch -= child.request.tier is Tier.BATCH
        if not siblings:
            del self._children[parent_id]
        return child

    def take(self, parent_id: int) -> list[Sequence]:
        """All children of a parent that has its prompt or is gone, the first first."""
        ids = tuple(self._children.get(parent_id, ()))
        return [child for each in ids if (child := self.remove(each))]

    def note_released(self, child: Sequence, parent_id: int) -> None:
        """Remembers a child that is queued to fork its parent."""
        self._released.setdefault(parent_id, []).append(child)

    def take_released(self, parent_id: int) -> list[Sequence]:
        """Children queued to fork a parent that is gone or lost its KV; some have run since."""
        return self._released.pop(parent_id, [])


def may_fork(child: Request, parent: Request) -> bool:
    """Whether what the parent computes is what the child needs, and the child may see it."""
    return (
        _is_same(child.prompt_token_ids, parent.prompt_token_ids)
        and child.cache_scope == parent.cache_scope
        and child.sampling.prompt_logprobs is None
    )


def _is_same(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Choices of one call have one prompt object; only strangers' are compared token by token."""
    return one is other or one == other
