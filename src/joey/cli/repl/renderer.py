"""Rendering of events in a terminal, line by line, for a task and its subtasks.

`TaskRenderer` draws one task, `TaskTreeRenderer` several on one terminal: a heading names the task
whenever it changes. While one task speaks alone, its text is drawn as it streams; when several
speak at a time, each is drawn in whole pieces, so that their lines do not mix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from joey.client.session import Session
from joey.core import events as ev
from joey.core.messages import CallPart, ReasoningPart, TextPart
from joey.core.task_types import APPROVAL_ASKS, RowKind
from joey.core.tool_calls import COMMAND_TOOL_NAME, get_summary
from joey.presentation.phrases import (
    describe_command_exit,
    describe_condense,
    describe_error,
    describe_provider_error,
    describe_retry,
)
from joey.presentation.questions import build_ask_view, format_answer_hint, format_question
from joey.presentation.text import MIN_TERMINAL_WIDTH, sanitize, to_one_line
from joey.presentation.tool_calls import CommandOutputPreview, render_call_card, wrap_text

if TYPE_CHECKING:
    from rich.console import Console


MAX_REASONING_LINES = 8
MAX_ALWAYS_RULE_CHARS = 2000
"""A user has to see what they allow."""
_TODO_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}


class StreamedText:
    """Text as it streams in, written as it is but for blank lines before and after it."""

    def __init__(self, console: Console, style: str = "") -> None:
        self._console = console
        self._style = style
        self._pending_newlines = ""
        """Held back, because perhaps nothing follows them."""
        self._has_begun = self._is_line_open = False
        self._ended_lines = self._column = 0

    @property
    def line_count(self) -> int:
        """Lines that were ended, by the text or by the edge."""
        return self._ended_lines + self._column // self._console.width

    def write(self, text: str) -> None:
        text = self._pending_newlines + text
        body = text.rstrip("\n")
        self._pending_newlines = text[len(body) :] if body or self._has_begun else ""
        body = body if self._has_begun else body.lstrip("\n")
        if not body:
            return
        *ended, last = body.split("\n")
        for line in ended:
            self._ended_lines += 1 + (self._column + len(line)) // self._console.width
            self._column = 0
        self._column += len(last)
        self._has_begun = self._is_line_open = True
        self._console.out(body, style=self._style or None, end="", highlight=False)

    def finish(self) -> None:
        """End the line: something else is going to be drawn."""
        if self._is_line_open:
            self._console.out("")
            self._ended_lines = self.line_count + 1
            self._is_line_open, self._column = False, 0
            self._pending_newlines = self._pending_newlines[1:]


class TaskRenderer:
    """Draws one task. Whatever is on the current line is finished before anything else is."""

    def __init__(self, console: Console, *, echo: bool = False) -> None:
        """With `echo` the user's words are drawn too, for screens where nobody types them."""
        self._console = console
        self._should_echo = echo
        self._current_row_ts: int | None = None
        """The row whose text stands unfinished on the current line."""
        self._has_transient_line = False
        """The current line holds a note that the next thing wipes out."""
        self._text_streams: dict[int, StreamedText] = {}
        """Rows of text that were shown while they grew."""
        self._displayed_text_rows: set[int] = set()
        """Rows of text of the latest reply, which were shown whole."""
        self._reasoning_writers: dict[int, StreamedText] = {}
        self._command_output: CommandOutputPreview | None = None
        self._call_id_by_ask: dict[int, str] = {}
        """Calls that a user or a policy was asked about, by the question."""
        self._rejected_call_ids: set[str] = set()
        self._custom_tool_call_ids: set[str] = set()
        """Calls of tools that the user wrote: only their results say what they did."""

    def render(self, event: ev.Event) -> None:
        if type(event) in ev.TRANSIENT_EVENTS:
            self._render_transient(event)
        else:
            self._render_persistent(event)

    def _render_transient(self, event: ev.Event) -> None:
        match event:
            case ev.RowDelta():
                self._append_text(event)
            case ev.RowOpened(say=RowKind.REASONING, ts=ts):
                self._reasoning_writers[ts] = StreamedText(self._console, "dim italic")
            case ev.RowOpened(tool=str(tool)):
                self.show_transient(f"{tool}…")
            case ev.RowOpened(say=RowKind.CONDENSE_CONTEXT):
                self.show_transient("condensing the conversation…")
            case ev.RetryCountdown(seconds=seconds) if seconds:
                self.show_transient(
                    f"{describe_retry(event)}: "
                    f"{to_one_line(describe_provider_error(event.message))}"
                )
            case ev.CommandOutputDelta():
                self._append_output(event.output)

    def _render_persistent(self, event: ev.Event) -> None:
        match event:
            case ev.RequestStarted():
                self._displayed_text_rows.clear()
                self.show_transient("thinking…")
            case ev.ReplyReceived():
                self._render_unstreamed_parts(event)
            case ev.ToolStarted():
                self._print_call(event, asked=False)
            case ev.AskOpened():
                self.print_ask(event)
                if event.ask in APPROVAL_ASKS and event.call_id:
                    self._call_id_by_ask[event.ts] = event.call_id
            case ev.AskAnswered():
                self._record_answer(event)
            case ev.ToolFinished():
                self._finish_tool(event)
            case ev.RowAdded():
                self._render_row(event)
            case ev.UserMessage(text=text) if self._should_echo:
                self.print_user_message(text)
            case ev.TodosChanged():
                marks = (f"  {_TODO_MARKS[todo.status]} {todo.content}" for todo in event.todos)
                self.print(Text(sanitize("\n".join(marks))))
            case ev.ContextCondensed() | ev.ContextTruncated():
                self.print_note(describe_condense(event))
            case ev.ModeSwitched(mode=mode):
                self.print_note(f"now in {mode} mode")
            case ev.TaskAborted() | ev.TaskRewound():
                went_back = isinstance(event, ev.TaskRewound)
                self.print_note("back at an earlier message" if went_back else "interrupted")
            case ev.TaskFailed():
                self.print_error(event.message)

    # What others may print in between

    def print(self, content: Text, hanging_indent: int = 0) -> None:
        self._end_line()
        text = wrap_text(content, self._wrap_width, hanging_indent)
        self._console.print(text, highlight=False, soft_wrap=True)

    def print_note(self, text: str) -> None:
        self.print(Text(sanitize(text), "dim"))

    def print_error(self, text: str) -> None:
        self.print(Text(f"! {sanitize(text)}", "red"))

    def print_user_message(self, text: str) -> None:
        self.print(Text(f"\n› {sanitize(text)}", "bold"))

    def print_prompt(self, text: str) -> None:
        """Leave the cursor behind a question."""
        self._end_line()
        hint = wrap_text(Text.assemble((f"{text} ", "dim"), ("›", "bold")), self._wrap_width)
        self._console.print(hint, end=" ", highlight=False, soft_wrap=True)

    def end_prompt_line(self) -> None:
        """The cursor stands behind a question that no line was typed to."""
        self._console.out("")

    @property
    def should_echo(self) -> bool:
        return self._should_echo

    def should_show_result(self, event: ev.ToolFinished) -> bool:
        """Whether the end of this call will be drawn."""
        return event.tool == COMMAND_TOOL_NAME or event.call_id in self._custom_tool_call_ids

    def create_sibling(self) -> TaskRenderer:
        """One for another task on the same screen."""
        return TaskRenderer(self._console, echo=self._should_echo)

    def finish_line(self) -> None:
        """Finish the current line: somebody else is going to draw."""
        self._end_line()

    def show_transient(self, text: str) -> None:
        """A note that stays only until there is something to show."""
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        self._end_line()
        note = Text(to_one_line(text, 4 * self._console.width), "dim")
        note.truncate(self._console.width - 1, overflow="ellipsis")
        self._console.print(note, end="", no_wrap=True, highlight=False)
        self._has_transient_line = True

    def print_ask(self, ask: ev.AskOpened) -> None:
        """What is asked and what may be answered, with the cursor behind it."""
        view = build_ask_view(ask)
        if view.is_approval:
            self._print_call(ask, asked=True)
            for warning in view.warnings:
                self.print(Text(f"  {warning}", "yellow"))
            if view.reason:
                self.print_note(f"  asks because {to_one_line(view.reason, 200)}")
            if view.confinement:
                self.print_note(f"  {view.confinement}")
            if ask.always_rule:
                self.print_note(f"  always: {to_one_line(ask.always_rule, MAX_ALWAYS_RULE_CHARS)}")
        if question := format_question(view):
            self.print(Text(f"\n{question}", "bold"))
        self.print_prompt(format_answer_hint(view))

    @property
    def _wrap_width(self) -> int | None:
        """Where lines are to be broken; None where there is no edge."""
        return max(MIN_TERMINAL_WIDTH, self._console.width) if self._console.is_terminal else None

    # Pieces of text

    def _append_text(self, event: ev.RowDelta) -> None:
        if event.ts in self._reasoning_writers:
            self._append_reasoning(event)
            return
        if self._current_row_ts != event.ts:
            self._end_line()
            self._current_row_ts = event.ts
            self._console.out("")
        if event.ts not in self._text_streams:
            self._text_streams[event.ts] = StreamedText(self._console)
        self._text_streams[event.ts].write(sanitize(event.delta))

    def _append_reasoning(self, event: ev.RowDelta) -> None:
        """The beginning of a block, dimmed; the rest is folded away."""
        flow = self._reasoning_writers[event.ts]
        if flow.line_count >= MAX_REASONING_LINES:
            return
        if self._current_row_ts != event.ts:
            self._end_line()
            self._current_row_ts = event.ts
        for line in sanitize(event.delta).splitlines(keepends=True):
            flow.write(line)
            if flow.line_count >= MAX_REASONING_LINES:
                self._end_line()
                self._console.out("…", style="dim italic")
                return

    def _render_unstreamed_parts(self, event: ev.ReplyReceived) -> None:
        """Parts whose growth was not heard."""
        for placed in event.parts:
            if placed.ts in self._text_streams or placed.ts in self._reasoning_writers:
                continue
            match placed.part:
                case TextPart(text=text) if text.strip():
                    self._append_text(ev.RowDelta(ts=placed.ts, delta=text))
                case ReasoningPart(text=text) if text:
                    self.print(Text(to_one_line(text, 400), "dim italic"))
        self._end_line()
        self._displayed_text_rows.update(self._text_streams)
        self._text_streams.clear()
        self._reasoning_writers.clear()

    def _end_line(self) -> None:
        if self._has_transient_line:
            self._console.file.write("\r\x1b[K")
            self._has_transient_line = False
        if self._current_row_ts is None:
            return
        row, self._current_row_ts = self._current_row_ts, None
        (self._text_streams.get(row) or self._reasoning_writers[row]).finish()

    # Tools

    def _print_call(self, event: ev.ToolStarted | ev.AskOpened, *, asked: bool) -> None:
        if event.call_id and get_summary(event).is_custom:
            self._custom_tool_call_ids.add(event.call_id)
        # The lines of a command must not be taken for one line that was broken.
        deeper = 2 if event.tool == COMMAND_TOOL_NAME else 0
        self.print(render_call_card(event, is_ask=asked), deeper)

    def _append_output(self, output: str) -> None:
        self._command_output = self._command_output or CommandOutputPreview()
        for line in self._command_output.feed(output):
            self._print_output_line(line)

    def _print_output_line(self, line: str) -> None:
        self.print(Text(f"  │ {line}", "dim"))

    def _finish_tool(self, event: ev.ToolFinished) -> None:
        output, self._command_output = self._command_output, None
        if output is not None:
            for line in output.close():
                self._print_output_line(line)
        if event.call_id in self._rejected_call_ids:
            self._rejected_call_ids.discard(event.call_id)
            self.print_note("  rejected")
        elif event.call_id in self._custom_tool_call_ids:
            self._custom_tool_call_ids.discard(event.call_id)
            preview = CommandOutputPreview()
            for line in (*preview.feed(event.content), *preview.close()):
                self._print_output_line(line)
        elif event.tool == COMMAND_TOOL_NAME and (end := describe_command_exit(event)):
            self.print_note(f"  {end}")

    def _record_answer(self, event: ev.AskAnswered) -> None:
        call = self._call_id_by_ask.pop(event.ask_ts, None)
        if call is not None and not event.answer.approves:
            self._rejected_call_ids.add(call)
        if not event.answer.is_by_user:
            # Where a user would have typed theirs.
            said = sanitize(event.answer.text) or ("y" if event.answer.approves else "n")
            self._console.out(f"{said} ({event.answered_by})", style="bold", highlight=False)

    def _render_row(self, event: ev.RowAdded) -> None:
        match event.say:
            case RowKind.ERROR:
                self.print_error(to_one_line(describe_error(event.text), 400))
            case RowKind.HOOK_MESSAGE:
                self.print_note(to_one_line(event.text, 400))
            case RowKind.ROOIGNORE_ERROR:
                self.print_error(f"{to_one_line(event.text)} is hidden by .rooignore")
            case RowKind.COMPLETION_RESULT if event.ts in self._displayed_text_rows:
                self.print(Text("\n✓ answered", "bold green"))
            case RowKind.COMPLETION_RESULT:
                self.print(Text("\n✓ result", "bold green"))
                result = StreamedText(self._console)
                result.write(sanitize(event.text))
                result.finish()
            case RowKind.COMMAND_OUTPUT if self._command_output is None:
                self._append_output(event.text)
            case RowKind.MCP_SERVER_RESPONSE:
                self._append_output(f"{event.text}\n")
            case RowKind.CONDENSE_CONTEXT_ERROR:
                self.print_note(f"not condensed: {to_one_line(event.text, 400)}")
            case RowKind.API_REQ_RETRY_DELAYED:
                self.print_note(to_one_line(describe_provider_error(event.text), 400))


MAX_TITLE_CHARS = 70
HIDDEN_ROW_KINDS = frozenset({RowKind.API_REQ_RETRIED, RowKind.SUBTASK_RESULT})


class TaskTreeRenderer:
    def __init__(self, root: Session, renderer: TaskRenderer) -> None:
        self._root = root
        self._renderers = {root.id: renderer}
        """Each task has its own, all for the same screen."""
        self._front_session: Session = root
        """Whose lines were drawn last."""
        self._active_task_ids = {root.id}
        self._streamed_rows: set[tuple[str, int]] = set()
        """Rows that are drawn while they grow."""
        self._headings_by_task: dict[str, str] = {}

    @property
    def message_recipient(self) -> Session:
        """The one to whom words are said that were not asked for."""
        is_active = (
            self._front_session.id in self._active_task_ids and self._front_session.is_running
        )
        return self._front_session if is_active else self._root

    def render(self, session: Session, event: ev.Event) -> None:
        self._track_state(session, event)
        if type(event) in ev.TRANSIENT_EVENTS and not self._can_stream(session, event):
            return
        if isinstance(event, ev.UserMessage) and event.is_first and session is not self._root:
            return  # the headline says it
        if self._is_visible(session, event):
            self.focus_renderer(session).render(event)
        elif not isinstance(event, ev.RequestStarted):
            self._get_renderer(session).render(event)

    def focus_renderer(self, session: Session) -> TaskRenderer:
        """That of `session`, which is in front from now on."""
        renderer = self._get_renderer(session)
        if session.id != self._front_session.id:
            self._get_renderer(self._front_session).finish_line()
            self._front_session = session
            is_root = session is self._root
            heading = "the task goes on" if is_root else self._get_or_assign_heading(session.id)
            renderer.print_note(f"\n┄┄ {heading}")
        return renderer

    def _get_renderer(self, session: Session) -> TaskRenderer:
        if session.id not in self._renderers:
            self._renderers[session.id] = self._renderers[self._root.id].create_sibling()
        return self._renderers[session.id]

    def _track_state(self, session: Session, event: ev.Event) -> None:
        match event:
            case ev.SubtaskSpawned(child_id=child_id):
                self._get_or_assign_heading(child_id)
            case ev.UserMessage(is_first=True, text=text) if session is not self._root:
                self._headings_by_task[session.id] = (
                    f"{self._get_or_assign_heading(session.id)}: "
                    f"{to_one_line(text, MAX_TITLE_CHARS)}"
                )
            case ev.TaskStarted() | ev.TaskUnpaused():
                self._active_task_ids.add(session.id)
            case ev.TaskPaused() | ev.TaskFinished() | ev.TaskAborted() | ev.TaskFailed():
                self._active_task_ids.discard(session.id)

    def _get_or_assign_heading(self, task_id: str) -> str:
        return self._headings_by_task.setdefault(
            task_id, f"subtask {len(self._headings_by_task) + 1}"
        )

    @property
    def _has_single_active_task(self) -> bool:
        return len(self._active_task_ids) <= 1

    def _can_stream(self, session: Session, event: ev.Event) -> bool:
        row = (session.id, event.ts)
        if self._has_single_active_task:
            self._streamed_rows.add(row)
        return row in self._streamed_rows

    def _is_visible(self, session: Session, event: ev.Event) -> bool:
        """Whether something will be drawn; what nobody sees brings nobody to the front."""
        match event:
            case ev.RequestStarted():
                return self._has_single_active_task
            case ev.ReplyReceived(parts=parts):
                return any(
                    not isinstance(placed.part, CallPart)
                    and bool(placed.part.text.strip())
                    and (session.id, placed.ts) not in self._streamed_rows
                    for placed in parts
                )
            case ev.RowOpened(tool=tool):
                return tool is not None
            case ev.ToolFinished():
                return self._get_renderer(session).should_show_result(event)
            case ev.RowAdded(say=say):
                return say not in HIDDEN_ROW_KINDS
            case ev.UserMessage():
                return self._get_renderer(session).should_echo
            case ev.UsageChanged() | ev.ArgumentsDelta():
                return False
            case ev.AskOpened() | ev.ToolStarted() | ev.TodosChanged() | ev.ModeSwitched():
                return True
            case ev.TaskAborted() | ev.TaskFailed() | ev.ContextCondensed() | ev.ContextTruncated():
                return True
            case _:
                return type(event) in ev.TRANSIENT_EVENTS
