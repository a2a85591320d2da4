"""Outcomes of the engine's steps: of a run, of a reply, of the approval of a tool call.

Plain values to match on, and the exceptions that end a run or a call early.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from joey.core.events import CommandOutputDelta, RowAdded, RowPart
from joey.core.history.state import TaskProjection
from joey.core.messages import ToolCall, UnusableCall, UserBlock
from joey.core.permissions.policy import BoundarySetting
from joey.core.task_types import Answer, RowKind, TaskState
from joey.errors import FailureCode, JoeyError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import PreparedToolCall, Tool

if TYPE_CHECKING:
    from joey.engine.task import Task


class Completed(Struct, frozen=True):
    """The result was accepted."""

    result: str
    refused: tuple[str, ...] = ()
    """What was not done because nobody was there to allow it."""
    answered: bool = False
    """The result is an answer in plain text."""


class Failed(Struct, frozen=True):
    """The task cannot continue by itself."""

    code: str
    message: str


class Aborted(Struct, frozen=True):
    """The task was cancelled."""


Ending = Completed | Failed | Aborted


class Continue(Struct, frozen=True):
    """Make another request, with this content after the results of the calls."""

    content: tuple[UserBlock, ...] = ()


class RunStopped(JoeyError):
    """Ends the run from anywhere, with a code and a sentence for the user."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StoppedByUser(JoeyError):
    """The user rejected a call of this task or of a subtask and thereby ended the run."""


class RepeatedCallStop(RunStopped):
    """The model keeps making a rejected call; `refusal` tells it why."""

    def __init__(self, tool: str, refusal: str) -> None:
        super().__init__(
            FailureCode.REPEATED_FAILURES, f"The model kept calling {tool} in the same way."
        )
        self.refusal = refusal


AnyTool = Tool[Any, Any]


class CommittedReply(Struct, frozen=True):
    """A reply of the model that is in the journal."""

    parts: tuple[RowPart, ...]
    is_cut_off: bool = False
    """The output limit ended it, or it repeated itself."""
    unusable_call: UnusableCall | None = None
    """What it has in its text that was meant as a call and cannot be used as one."""
    is_repetitive: bool = False


class RowCall(Struct, frozen=True):
    call: ToolCall
    row_ts: int


class OutputRow:
    """The row of a call's output. It gets its `ts` when it is first published: clients append rows
    as they are created."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._ts: int | None = None

    def append(self, text: str) -> None:
        self._task.publish(CommandOutputDelta(ts=self._ensure_ts(), output=text))

    def add_row(self, kind: RowKind, text: str, images: tuple[str, ...] = ()) -> None:
        """Add a row of the call: the output, which closes this one, or one of its own."""
        ts = self._ensure_ts() if kind == RowKind.COMMAND_OUTPUT else self._task.next_ts()
        self._task.publish(RowAdded(ts=ts, say=kind, text=text, images=images))

    def add_rows_and_close(self, rows: Iterable[tuple[RowKind, str]]) -> None:
        for kind, text in rows:
            self.add_row(kind, text)
        self.close()

    def close(self) -> None:
        if self._ts is not None:
            self._task.close_row(self._ts)

    def _ensure_ts(self) -> int:
        if self._ts is None:
            self._ts = self._task.next_ts()
        return self._ts


class ApprovedCall(Struct, frozen=True):
    """A call that may run."""

    tool: AnyTool
    prepared: PreparedToolCall
    context: ToolContext
    output_row: OutputRow
    answer: Answer | None
    """The user's, when one was asked."""
    rule: str | None = None
    """What allowed it, when nobody was asked."""


class RejectedCall(Struct, frozen=True):
    """The user rejected the call, or there was no user to approve it."""

    answer: Answer
    required_settings: tuple[BoundarySetting, ...] = ()
    """The settings that would allow it, where it lies beyond the boundary of the run."""
    protected_paths: tuple[str, ...] = ()
    """The protected files because of which it needed approval."""


class RepeatedCallError(ToolError):
    """The same call was repeated; carries the user's advice."""

    def __init__(self, message: str, images: tuple[str, ...]) -> None:
        super().__init__(message)
        self.images = images


def derive_ending(projection: TaskProjection) -> Ending:
    """Derive how the latest run ended from the journal."""
    match projection.state:
        case TaskState.COMPLETED:
            return Completed(
                projection.result or "", projection.unattended_refusals, projection.is_plain_answer
            )
        case TaskState.FAILED if projection.failure is not None:
            return Failed(projection.failure.code, projection.failure.message)
        case _:
            return Aborted()
