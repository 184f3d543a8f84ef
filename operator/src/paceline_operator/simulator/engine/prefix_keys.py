"""Keys of the KV blocks of a prompt that other prompts may share."""

from __future__ import annotations

from paceline_operator.simulator.request import PREFIX_BLOCK_TOKENS, Request

_MASK = (1 << 62) - 1


def shared_keys(request: Request, block_size: int) -> tuple[int, ...]:
    """Keys of the full blocks at the beginning of a prompt that its prefix ids speak for.

    Two keys are equal where everything up to the end of the block is: the place of the block and
    all ids so far. Those of one id follow each other, as they are looked up; ids begin at
    well-spread numbers of 62 bits, so that of millions of blocks no two meet.
    """
    covered = min(request.prompt_tokens, PREFIX_BLOCK_TOKENS * len(request.prefix_blocks))
    keys: list[int] = []
    chain = -1
    first, end = 0, 0
    for number, prefix_id in enumerate(request.prefix_blocks):
        chain = hash((chain, prefix_id))
        end = min(covered, PREFIX_BLOCK_TOKENS * (number + 1)) // block_size
        keys.extend([(chain + place) & _MASK for place in range(first, end)])
        first = end
    return tuple(keys)


def own_key(arrival: int, place: int) -> int:
    """Key of a block that holds text of one request alone; never that of a shared one."""
    return -1 - (arrival << 32) - place
