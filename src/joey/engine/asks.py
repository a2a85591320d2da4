"""Questions to the user: one future per ask, answered once, by its id.

An ask ends with an answer by its id, with a policy that answers instead of the user, or with the
cancellation of the task. Nothing polls, and nothing else can answer it (decision D17). `Unattended`
is the policy of runs without a user: every ask gets a defined answer, so that the run always ends.
Text and images that come with an answer are shown as a row and passed to the model as content
blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from joey.core.events import AskAnswered, AskOpened, AskWithdrawn, Event, UserMessage
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.messages import TextBlock, UserBlock, build_image_block
from joey.core.prompts import messages_to_model
from joey.core.task_types import Answer, AnsweredBy, AskKind, Response

if TYPE_CHECKING:
    from joey.engine.task import Task


class AnswerPolicy(Protocol):
    """Answers asks in runs without a user, or as the user decided beforehand."""

    name: str

    def answer(self, ask: AskOpened) -> Answer | None:
        """Return the answer, or None to wait for a user."""


class TimeoutAnswer(Struct, frozen=True):
    """An answer that is used if none arrives in time."""

    timeout_s: float
    answer: Answer


class PendingAsks:
    def __init__(
        self,
        publish: Callable[[Event], object],
        now: Callable[[], int],
        policy: AnswerPolicy | None,
    ) -> None:
        self._publish = publish
        self._next_ts = now
        self._policy = policy
        self._answer_futures: dict[int, asyncio.Future[Answer]] = {}

    @property
    def is_unattended(self) -> bool:
        """Whether a policy answers instead of a user."""
        return isinstance(self._policy, Unattended) and self._policy.replaces_user

    async def ask(self, opened: AskOpened, timeout_answer: TimeoutAnswer | None = None) -> Answer:
        """Ask a question and wait for its answer, or until `timeout_answer` is used."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answer_futures[opened.ts] = future
        try:
            self._publish(opened)
            if self._policy is not None and (answer := self._policy.answer(opened)) is not None:
                self._record_answer(opened.ts, answer, self._policy.name)
            if timeout_answer is None:
                return await future
            await asyncio.wait([future], timeout=timeout_answer.timeout_s)
            if not future.done():
                self._record_answer(opened.ts, timeout_answer.answer, AnsweredBy.TIMEOUT)
            return future.result()
        except BaseException:
            if not future.done() or future.cancelled():
                self._publish(AskWithdrawn(ts=self._next_ts(), ask_ts=opened.ts))
            raise
        finally:
            del self._answer_futures[opened.ts]

    def answer(self, ask_ts: int, answer: Answer, by: str = AnsweredBy.USER) -> bool:
        """Answer an ask; False if none with this id is open."""
        future = self._answer_futures.get(ask_ts)
        if future is None or future.done():
            return False
        self._record_answer(ask_ts, answer, by)
        return True

    def _record_answer(self, ask_ts: int, answer: Answer, by: str) -> None:
        answer = structs.replace(answer, by=by)
        self._publish(AskAnswered(ts=self._next_ts(), ask_ts=ask_ts, answer=answer))
        self._answer_futures[ask_ts].set_result(answer)


class Unattended:
    """Accepts results, resumes, leaves questions to the model, and rejects what a user must
    allow."""

    name: str = AnsweredBy.UNATTENDED
    replaces_user = True
    """Nobody else is there to help the model when it goes wrong."""

    def __init__(self) -> None:
        self.refused_asks: list[AskOpened] = []
        """What would have needed a user."""

    def answer(self, ask: AskOpened) -> Answer | None:
        match ask.ask:
            case AskKind.COMPLETION_RESULT | AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
                return Answer(Response.YES)
            case AskKind.FOLLOWUP:
                return Answer(Response.MESSAGE)
            case AskKind.TOOL if ask.tool == COMPLETION_TOOL_NAME:
                return Answer(Response.YES)
            case _:
                self.refused_asks.append(ask)
                return Answer(Response.NO)


def publish_feedback(task: Task, answer: Answer) -> None:
    if answer.has_content:
        task.publish(UserMessage(ts=task.next_ts(), text=answer.text, images=answer.images))


def build_feedback_blocks(answer: Answer) -> tuple[UserBlock, ...]:
    """Build the user's text as shown to the model; empty without a text."""
    text = (TextBlock(messages_to_model.render_user_message(answer.text)),) if answer.text else ()
    return (*text, *(build_image_block(uri) for uri in answer.images))
