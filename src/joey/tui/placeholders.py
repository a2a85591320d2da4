"""What stands where the person writes as long as they have not: what they may say now."""

from __future__ import annotations

from joey.core.task import AskKind
from joey.tui.dialogue import Dialogue

_ANSWERS = {
    AskKind.FOLLOWUP: "your own answer",
    AskKind.COMPLETION_RESULT: "Enter accepts the result; or say what to change",
}


def placeholder_for(dialogue: Dialogue) -> str:
    if dialogue.asked is not None:
        return _ANSWERS.get(dialogue.asked.ask.ask, "")
    if dialogue.session is None:
        return "what shall be done? (? shows the keys)"
    return "joey reads what you write before its next step" if dialogue.is_working else "what next?"
