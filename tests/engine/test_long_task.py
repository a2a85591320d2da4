"""A task driven through whatever may happen to one, at random; after every step all must hold.

Turns with thoughts, images, calls side by side, subtasks, denials, todos and modes, condensing,
truncation, rewinding to any row, also while the model speaks and words wait, undoing that, saying
something anew, forking, cancelling in the middle of an answer, and dying: the folder as a `kill -9`
would leave it, opened by another engine. It begins with words, or with what Roo has left.
"""

from __future__ import annotations

import json

import pytest

from joey.core.models import ToolProtocol
from joey.engine.task import Task
from tests.harness.engine.long_task import (
    STEPS,
    LongTask,
    survive,
)

ADOPTED_ROWS = [
    {"ts": 11, "type": "say", "say": "text", "text": "mend it"},
    {"ts": 12, "type": "say", "say": "api_req_started", "text": "{}"},
    {"ts": 14, "type": "say", "say": "text", "text": "I look."},
    {"ts": 16, "type": "ask", "ask": "tool", "text": '{"tool":"readFile","path":"a.txt"}'},
    {"ts": 18, "type": "say", "say": "user_feedback", "text": "faster"},
    {
        "ts": 21,
        "type": "say",
        "say": "condense_context",
        "contextCondense": {"summary": "They want it mended.", "condenseId": "c1", "cost": 0},
    },
    {"ts": 22, "type": "say", "say": "api_req_started", "text": "{}"},
    {"ts": 24, "type": "say", "say": "text", "text": "Faster then."},
]
ADOPTED_MESSAGES = [
    {"role": "user", "content": "mend it", "ts": 13, "condenseParent": "c1"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a.txt"}},
        ],
        "ts": 15,
        "condenseParent": "c1",
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "a word"},
            {"type": "text", "text": "faster"},
        ],
        "ts": 19,
        "condenseParent": "c1",
    },
    {
        "role": "user",
        "content": [{"type": "text", "text": "They want it mended."}],
        "ts": 20,
        "isSummary": True,
        "condenseId": "c1",
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Faster then."}], "ts": 25},
]


class LongXmlTask(LongTask):
    protocol = ToolProtocol.XML


class LongAdoptedTask(LongTask):
    """It was begun by somebody else, and condensed there."""

    def start(self) -> Task:
        directory = self.harness.home / "tasks" / "1700000000001"
        directory.mkdir(parents=True)
        (directory / "ui_messages.json").write_text(json.dumps(ADOPTED_ROWS))
        (directory / "api_conversation_history.json").write_text(json.dumps(ADOPTED_MESSAGES))
        engine, name = self.harness.engine, "1700000000001"
        return self.do(engine.resume(name, self.next_message(), options=self.reopening))


@pytest.mark.contract("history:valid")
@pytest.mark.timeout(300 + STEPS // 5)
@pytest.mark.parametrize("machine", [LongTask, LongXmlTask, LongAdoptedTask])
def test_a_task_survives_whatever_happens_to_it(machine: type[LongTask]) -> None:
    survive(machine, STEPS // 3)
