from __future__ import annotations

import asyncio

from paceline_engine.server.choices import Prompt
from paceline_engine.server.opening import PromptScores, PromptView
from paceline_engine.tokenizer import load_tokenizer


async def test_all_choices_wait_for_the_scores() -> None:
    view = PromptView(
        Prompt(token_ids=(97, 98)), load_tokenizer(None), echoes=True, scores=PromptScores()
    )
    waiting = [asyncio.create_task(view.opening()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    view.tell(())
    openings = await asyncio.gather(*waiting)
    assert {(each.text, each.offsets) for each in openings} == {("ab", (0, 1))}
