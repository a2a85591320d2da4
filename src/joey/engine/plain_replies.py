"""Replies without a call: the model is reminded once, then what it said is its answer.

Where the mode may edit or run commands, a model that only talks has most likely forgotten to act,
and hears the reminder. Elsewhere there is nothing to act on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from joey.core.events import Placed, Said
from joey.core.messages import TextBlock, TextPart
from joey.core.prompts import replies
from joey.engine.completion import NOT_ACCEPTED, present
from joey.engine.endings import Completed, Continue
from joey.engine.mentions import tell
from joey.engine.mistakes import Mistakes
from joey.errors import ToolError

if TYPE_CHECKING:
    from joey.engine.task import Task


async def judge_plain_reply(
    task: Task, reply: Sequence[Placed], mistakes: Mistakes
) -> Completed | Continue:
    """Remind the model, or present what it said as the result."""
    texts = {p.ts: p.part.text.strip() for p in reply if isinstance(p.part, TextPart)}
    row_ts = max(ts for ts, text in texts.items() if text)
    said = mistakes.plain_replies
    said.append("\n\n".join(filter(None, texts.values())))
    if len(said) == 1 and task.mode.may_edit_or_run:
        return Continue((TextBlock(replies.no_tool_used(task.recorder.facts.protocol)),))
    # A program reads a result that has to fit a schema: nothing may stand in front of it.
    answer = said[-1] if task.bench.result_check is not None else _joined(said[-2:])
    return await _present(task, answer, row_ts, mistakes)


async def _present(
    task: Task, answer: str, row_ts: int, mistakes: Mistakes
) -> Completed | Continue:
    try:
        response = await present(task, answer, row_ts)
    except ToolError as error:
        mistakes.made_one((str(error),))
        task.publish(Said(ts=task.now(), say="error", text=str(error)))
        return Continue((TextBlock(str(error)),))
    mistakes.forgive()
    mistakes.plain_replies.clear()
    if response is not None and not response.approves:
        words = response.text or ("" if response.images else NOT_ACCEPTED)
        return Continue(await tell(task, words, response.images))
    if task.recorder.facts.queue:
        return Continue()
    return Completed(answer, answered=True)


def _joined(texts: Sequence[str]) -> str:
    """The texts of the replies, unless one of them says all that the other one says."""
    first, last = texts[0], texts[-1]
    if _plain(last) in _plain(first):
        return first
    return last if _plain(first) in _plain(last) else f"{first}\n\n{last}"


def _plain(text: str) -> str:
    return " ".join(text.split())
