"""Events of a task and its subtasks, rendered as lines of text.

`LineWriter` writes to a stream, `TaskRenderer` draws one task on it, `TaskTreeRenderer` a task with
its subtasks. Brief lines report the progress of a run without a user; lines of a subtask begin with
its number. Otherwise everything that a user needs is drawn: text as it streams in while only one
task produces text, and complete blocks when several do, each below a heading that names its task.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TextIO

from joey.cli.output import truncate_to_width
from joey.client.session import Session
from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.messages import ReasoningPart, TextPart
from joey.core.task_types import APPROVAL_ASKS, AskKind, CallEnding, Response, RowKind
from joey.core.tool_calls import COMMAND_TOOL_NAME, get_summary
from joey.presentation import phrases, questions
from joey.presentation.text import Piece, get_terminal_width, sanitize, to_one_line, wrap_pieces
from joey.presentation.tool_calls import CommandOutputPreview, describe_call, render_call_card

BRIEF_WIDTH = 120
"""Of lines that are cut, where there is no terminal."""
MAX_REASONING_LINES = 8
MAX_ALWAYS_RULE_CHARS = 2000
"""A user has to see what they allow."""
MAX_NOTE_CHARS = 400
MAX_TITLE_CHARS = 70
_ERASE_LINE = "\r\x1b[K"
_ANSI_CODES = {"bold": 1, "dim": 2, "italic": 3, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
_BRIEF_STATUSES: dict[type[ev.Event], str] = {
    ev.RequestStarted: "  waiting for the model…",
    ev.RowDelta: "  the model is writing…",
    ev.ArgumentsDelta: "  the model is writing…",
    ev.RequestEnded: "",
}
_RESPONSE_TEXTS = {Response.YES: "y", Response.NO: "n", Response.MESSAGE: "no answer"}
_TODO_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}


class LineWriter:
    """A stream of lines. The last one may be open: it holds streaming text, or a status that the
    next line erases."""

    def __init__(self, stream: TextIO, *, is_brief: bool = False, has_status: bool = True) -> None:
        """Brief lines have no colours, and write errors on them are ignored."""
        self.is_brief = is_brief
        self.front: TaskRenderer | None = None
        """The task whose lines were drawn last."""
        self._stream: TextIO | None = stream
        self._open_text: StreamedText | None = None
        self._status = ""
        is_capable = self.width is not None and os.environ.get("TERM") not in ("dumb", "unknown")
        self._has_status = is_capable and has_status
        self._has_colours = is_capable and not is_brief and not os.environ.get("NO_COLOR")

    @property
    def width(self) -> int | None:
        """The width of the terminal; None without one."""
        return get_terminal_width(self._stream)

    def print(self, *pieces: Piece, end: str = "\n", extra_indent: int = 0) -> None:
        self.end_line()
        safe = [(sanitize(text), style) for text, style in pieces]
        self.write(*wrap_pieces(safe, self.width, extra_indent), (end, ""))

    def print_note(self, text: str) -> None:
        self.print((text, "dim"))

    def print_error(self, text: str) -> None:
        self.print((f"! {text}", "red"))

    def print_user_message(self, text: str) -> None:
        self.print((f"\n› {text}", "bold"))

    def print_cut(self, text: str) -> None:
        """Print one line, cut at the terminal's width."""
        self.print((truncate_to_width(text, self.width or BRIEF_WIDTH), ""))

    def print_prompt(self, text: str) -> None:
        """Print a question and leave the cursor after it."""
        self.print((f"{text} ", "dim"), ("›", "bold"), end=" ")

    def end_prompt_line(self, answer: str = "") -> None:
        """End the line of a question that got no typed answer."""
        self.write((sanitize(answer), "bold"), ("\n", ""))

    def show_status(self, text: str) -> None:
        """Show a status until the next output; only on a terminal."""
        if self._has_status and text != self._status:
            self.end_line()
            self.write((truncate_to_width(text, (self.width or BRIEF_WIDTH) - 1), "dim"))
            self._status = text

    def open_text(self, text: StreamedText) -> None:
        """Begin streaming text into the last line."""
        if self._open_text is not text:
            self.end_line()
            self._open_text = text
            self.write((text.lead, ""))

    def end_line(self) -> None:
        if self._status:
            self._status = ""
            self.write((_ERASE_LINE, ""))
        text, self._open_text = self._open_text, None
        if text is not None:
            text.handle_line_end()
            self.write(("\n", ""))

    def write(self, *pieces: Piece) -> None:
        """Write text. Raises OSError, ValueError, unless lines are brief."""
        if self._stream is None:
            return
        try:
            self._stream.write("".join(self._colour(text, style) for text, style in pieces))
            self._stream.flush()
        except (OSError, ValueError):
            if not self.is_brief:
                raise
            self._stream = None

    def _colour(self, text: str, style: str) -> str:
        if not (self._has_colours and text and style):
            return text
        codes = ";".join(str(_ANSI_CODES[word]) for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m"


class StreamedText:
    """Streaming text, written unchanged except for blank lines before and after it."""

    def __init__(self, writer: LineWriter, style: str = "", lead: str = "") -> None:
        """`lead` is written whenever the text starts a line of its own."""
        self.lead = lead
        self.style = style
        self._writer = writer
        self._pending_newlines = ""
        """Held back, because perhaps nothing follows them."""
        self._has_begun = False
        self._ended_lines = self._column = 0

    @property
    def line_count(self) -> int:
        """The number of lines that a newline or the terminal's edge has ended."""
        return self._ended_lines + self._column // (self._writer.width or 80)

    def write(self, text: str) -> None:
        text = self._pending_newlines + sanitize(text)
        body = text.rstrip("\n")
        self._pending_newlines = text[len(body) :] if body or self._has_begun else ""
        body = body if self._has_begun else body.lstrip("\n")
        if not body:
            return
        self._writer.open_text(self)
        *ended, last = body.split("\n")
        for line in ended:
            self._column += len(line)
            self._ended_lines = self.line_count + 1
            self._column = 0
        self._column += len(last)
        self._has_begun = True
        self._writer.write((body, self.style))

    def handle_line_end(self) -> None:
        """End the line, because something else will be drawn."""
        self._ended_lines = self.line_count + 1
        self._column = 0
        self._pending_newlines = self._pending_newlines[1:]


class TaskRenderer:
    """Draws one task."""

    def __init__(
        self, writer: LineWriter, *, echo: bool = False, heading: str = "", prefix: str = ""
    ) -> None:
        """With `echo` the user's messages are drawn too, for screens on which they are not typed.
        `heading` is printed after lines of another task, `prefix` before every brief line."""
        self.heading = heading
        self.is_alone = True
        """No other task is at work on this screen."""
        self._writer = writer
        self._should_echo = echo
        self._prefix = prefix
        self._announced_retry_ts: int | None = None
        self._held_texts: dict[str, None] = {}
        """Brief: texts that are printed unless the result repeats them."""
        self._streams: dict[int, StreamedText] = {}
        """Rows of text and reasoning of the latest reply, by `ts`."""
        self._command_output: CommandOutputPreview | None = None
        self._open_asks: dict[int, ev.AskOpened] = {}
        """Calls and questions that a user or a policy was asked about."""
        self._rejected_call_ids: set[str] = set()
        self._custom_tool_call_ids: set[str] = set()
        """Calls of tools that the user wrote: only their results say what they did."""

    def render(self, event: ev.Event) -> None:
        match event:
            case ev.ToolFinished():
                self._finish_tool(event)
            case ev.RowAdded():
                self._render_row(event)
            case ev.ContextCondensed() | ev.ContextTruncated():
                self._print_about_request(phrases.describe_condense(event))
            case ev.ModeSwitched(mode=mode):
                self._print_note(f"now in {mode} mode")
            case _ if self._writer.is_brief:
                if isinstance(event, ev.TaskFinished | ev.TaskAborted | ev.TaskFailed):
                    self._print_held_texts()
                self._render_brief(event)
            case _ if type(event) in ev.TRANSIENT_EVENTS:
                self._render_transient(event)
            case _:
                self._render_persistent(event)

    def _render_brief(self, event: ev.Event) -> None:
        match event:
            case ev.RequestStarted() | ev.RowDelta() | ev.ArgumentsDelta() | ev.RequestEnded():
                self._writer.show_status(_BRIEF_STATUSES[type(event)])
            case ev.ReplyReceived():
                for placed in event.parts:
                    if isinstance(placed.part, TextPart) and placed.part.text.strip():
                        self._held_texts[placed.part.text.strip()] = None
            case ev.ToolStarted(tool=tool) if tool != COMPLETION_TOOL_NAME:
                self.print(describe_call(event), cut=True)
            case ev.AskOpened(ask=kind) if kind in APPROVAL_ASKS or kind is AskKind.FOLLOWUP:
                self._open_asks[event.ts] = event
                question = to_one_line(
                    questions.parse_follow_up(event.text).question, MAX_NOTE_CHARS
                )
                is_question = kind is AskKind.FOLLOWUP
                self.print(f"? {question}" if is_question else describe_call(event), cut=True)
            case ev.AskAnswered(ask_ts=ts, answer=answer) if ts in self._open_asks:
                if self._open_asks.pop(ts).ask is AskKind.FOLLOWUP:
                    self._print_note(
                        f"answered: {_shorten(answer.text)}"
                        if answer.text
                        else "no user is there to answer: the model decides"
                    )
                elif not answer.approves:
                    self.print("  refused: no user is there to allow it")
            case ev.RetryCountdown(ts=ts) if ts != self._announced_retry_ts:
                self._announced_retry_ts = ts
                self._print_about_request(_shorten(phrases.describe_failed_attempt(event)))
            case ev.TaskCreated() if not self._prefix:
                self.print(f"joey: task {event.task_id} · {event.model} · {event.mode}")
            case ev.TaskFinished() if self._prefix:
                self.print("done")
            case ev.TaskAborted() if self._prefix:
                self.print("stopped")
            case ev.TaskFailed(message=message) if self._prefix:
                self.print(f"failed: {_shorten(message)}")

    def _render_transient(self, event: ev.Event) -> None:
        match event:
            case ev.RowDelta():
                self._append_text(event)
            case ev.RowOpened(say=RowKind.REASONING, ts=ts):
                self._streams[ts] = StreamedText(self._writer, "dim italic")
            case ev.RowOpened(tool=str(tool)):
                self._show_status(f"{to_one_line(tool)}…")
            case ev.RowOpened(say=RowKind.CONDENSE_CONTEXT):
                self._show_status("condensing the conversation…")
            case ev.RetryCountdown(seconds=seconds) if seconds:
                self._show_status(_shorten(phrases.describe_failed_attempt(event)))
            case ev.CommandOutputDelta():
                self._append_output(event.output)

    def _render_persistent(self, event: ev.Event) -> None:
        match event:
            case ev.RequestStarted():
                self._streams.clear()
                self._show_status("thinking…")
            case ev.ReplyReceived():
                self._render_unstreamed_parts(event)
            case ev.ToolStarted():
                self._print_call(event)
            case ev.AskOpened():
                self.print_ask(event)
                if event.ask in APPROVAL_ASKS and event.call_id:
                    self._open_asks[event.ts] = event
            case ev.AskAnswered():
                self._record_answer(event)
            case ev.UserMessage(text=text) if self._should_echo:
                self._focus()
                self._writer.print_user_message(text)
            case ev.TodosChanged():
                marks = (f"  {_TODO_MARKS[todo.status]} {todo.content}" for todo in event.todos)
                self.print("\n".join(marks))
            case ev.TaskRewound():
                self._print_note("back at an earlier message")
            case ev.TaskAborted():
                self._print_note("interrupted")
            case ev.TaskFailed():
                self._print_error(event.message)

    # Lines

    def print(self, text: str, style: str = "", *, cut: bool = False) -> None:
        """Print text; with `cut`, only as much as fits in one line if lines are brief."""
        self._print_held_texts()
        self._focus()
        if cut and self._writer.is_brief:
            self._writer.print_cut(self._prefix + text)
        else:
            self._writer.print((self._prefix + text, style))

    def _print_held_texts(self) -> None:
        held, self._held_texts = self._held_texts, {}
        for text in held:
            self._print_note(_shorten(text))

    def _print_note(self, text: str) -> None:
        self.print(f"  {text}" if self._writer.is_brief else text, "dim", cut=True)

    def _print_about_request(self, text: str) -> None:
        self.print(f"~ {text}" if self._writer.is_brief else text, "dim")

    def _print_error(self, text: str) -> None:
        self.print(f"! {text}", "red")

    def _show_status(self, text: str) -> None:
        if self.is_alone:
            self._focus()
            self._writer.show_status(text)

    def _focus(self) -> None:
        """Print the heading of this task if the lines above belong to another one."""
        front, self._writer.front = self._writer.front, self
        if self.heading and front not in (None, self):
            self._writer.print_note(f"\n┄┄ {self.heading}")

    def print_ask(self, ask: ev.AskOpened) -> None:
        """Print the question and its possible answers, and leave the cursor after it."""
        self._focus()
        view = questions.build_ask_view(ask)
        if view.is_approval:
            self._print_call(ask)
            for warning in view.warnings:
                self.print(f"  {warning}", "yellow")
            if view.reason:
                self._print_note(f"  asks because {to_one_line(view.reason, 200)}")
            if view.confinement:
                self._print_note(f"  {view.confinement}")
            for choice in view.choices:
                if choice.rule or choice.answer.network:
                    label = _shorten(phrases.lower_first(choice.full_label), MAX_ALWAYS_RULE_CHARS)
                    self._print_note(f"  {choice.word}: {label}")
        if question := questions.format_question(view):
            self.print(f"\n{question}", "bold")
        self._writer.print_prompt(questions.format_answer_hint(view))

    # Pieces of text

    def _append_text(self, event: ev.RowDelta) -> None:
        if event.ts not in self._streams:
            self._streams[event.ts] = StreamedText(self._writer, lead="\n")
        stream = self._streams[event.ts]
        if not stream.style:
            self._focus()
            stream.write(event.delta)
            return
        # The beginning of a block of reasoning; the rest is hidden.
        for line in event.delta.splitlines(keepends=True):
            if stream.line_count >= MAX_REASONING_LINES:
                return
            self._focus()
            stream.write(line)
            if stream.line_count >= MAX_REASONING_LINES:
                self.print("…", stream.style)

    def _render_unstreamed_parts(self, event: ev.ReplyReceived) -> None:
        """Render the parts that were not streamed."""
        for placed in event.parts:
            if placed.ts in self._streams:
                continue
            match placed.part:
                case TextPart(text=text) if text.strip():
                    self._append_text(ev.RowDelta(ts=placed.ts, delta=text))
                case ReasoningPart(text=text) if text:
                    self.print(_shorten(text), "dim italic")
        if self._writer.front is self:
            self._writer.end_line()

    # Tools

    def _print_call(self, event: ev.ToolStarted | ev.AskOpened) -> None:
        if event.call_id and get_summary(event).is_custom:
            self._custom_tool_call_ids.add(event.call_id)
        self._focus()
        is_ask = isinstance(event, ev.AskOpened)
        # The lines of a command must not look like one wrapped line.
        deeper = 2 if event.tool == COMMAND_TOOL_NAME else 0
        self._writer.print(*render_call_card(event, is_ask=is_ask), extra_indent=deeper)

    def _append_output(self, output: str) -> None:
        self._command_output = self._command_output or CommandOutputPreview()
        for line in self._command_output.feed(output):
            self._print_note(f"  │ {line}")

    def _finish_tool(self, event: ev.ToolFinished) -> None:
        output, self._command_output = self._command_output, None
        is_rejected = event.call_id in self._rejected_call_ids
        is_custom = event.call_id in self._custom_tool_call_ids
        self._rejected_call_ids.discard(event.call_id)
        self._custom_tool_call_ids.discard(event.call_id)
        if is_custom and not is_rejected:
            output = CommandOutputPreview()
            for line in output.feed(event.content):
                self._print_note(f"  │ {line}")
        if output is not None:
            for line in output.close():
                self._print_note(f"  │ {line}")
        if is_rejected:
            self._print_note("  rejected")
        elif event.ending is CallEnding.SKIPPED:
            # It never started, so no line names it yet.
            call = (event.result_header or f"[{event.tool}]").removesuffix(" Result:")[1:-1]
            self.print(f"· skipped: {to_one_line(call)}", "dim", cut=True)
        elif event.tool == COMMAND_TOOL_NAME and (end := phrases.describe_command_exit(event)):
            self._print_note(end if self._writer.is_brief else f"  {end}")

    def _record_answer(self, event: ev.AskAnswered) -> None:
        ask, answer = self._open_asks.pop(event.ask_ts, None), event.answer
        if ask is not None and ask.call_id and not answer.approves:
            self._rejected_call_ids.add(ask.call_id)
        if not answer.is_by_user:
            # Where a user would have typed the answer.
            said = answer.text or _RESPONSE_TEXTS[answer.response]
            self._writer.end_prompt_line(f"{said} ({event.answered_by})")

    def _render_row(self, event: ev.RowAdded) -> None:
        match event.say:
            case RowKind.COMPLETION_RESULT if self._writer.is_brief:
                if not self._prefix:  # it is printed when the run ends
                    held = (text for text in self._held_texts if text not in event.text)
                    self._held_texts = dict.fromkeys(held)
            case RowKind.ERROR:
                self._print_error(_shorten(phrases.describe_error(event.text)))
            case RowKind.HOOK_MESSAGE:
                self._print_note(_shorten(event.text))
            case RowKind.ROOIGNORE_ERROR:
                self._print_error(f"{to_one_line(event.text)} is hidden by .rooignore")
            case RowKind.CONDENSE_CONTEXT_ERROR:
                self._print_about_request(f"not condensed: {_shorten(event.text)}")
            case _ if self._writer.is_brief:
                return
            case RowKind.COMPLETION_RESULT if event.ts in self._streams:
                self.print("\n✓ answered", "bold green")
            case RowKind.COMPLETION_RESULT:
                self.print("\n✓ result", "bold green")
                StreamedText(self._writer).write(event.text)
                self._writer.end_line()
            case RowKind.COMMAND_OUTPUT if self._command_output is None:
                self._append_output(event.text)
            case RowKind.MCP_SERVER_RESPONSE:
                self._append_output(f"{event.text}\n")
            case RowKind.API_REQ_RETRY_DELAYED:
                self._print_note(_shorten(phrases.describe_provider_error(event.text)))


class TaskTreeRenderer:
    """Draws a task and its subtasks, which are numbered: `[2]`, and `[2.1]` below it."""

    def __init__(self, root: Session, writer: LineWriter, *, echo: bool = False) -> None:
        self._root = root
        self._writer = writer
        self._should_echo = echo
        self._renderers = {root.id: TaskRenderer(writer, echo=echo, heading="the task continues")}
        self._sessions = {root.id: root}
        self._numbers = {root.id: ""}
        self._subtask_counts: Counter[str] = Counter()
        self._active_task_ids = {root.id}
        self._streamed_rows: set[tuple[str, int]] = set()
        """Rows that are drawn while they grow."""
        writer.front = self._renderers[root.id]

    @property
    def message_recipient(self) -> Session:
        """The task that receives a message which answers no question."""
        for task_id, session in self._sessions.items():
            is_active = task_id in self._active_task_ids and session.is_running
            if is_active and self.get_renderer(session) is self._writer.front:
                return session
        return self._root

    def get_renderer(self, session: Session) -> TaskRenderer:
        self._sessions[session.id] = session
        if session.id not in self._renderers:
            self._add_subtask(session.id, self._root.id)
        return self._renderers[session.id]

    def render(self, session: Session, event: ev.Event) -> None:
        renderer = self.get_renderer(session)
        if isinstance(event, ev.TaskStarted | ev.TaskUnpaused):
            self._active_task_ids.add(session.id)
        elif isinstance(event, ev.TaskPaused | ev.TaskFinished | ev.TaskAborted | ev.TaskFailed):
            self._active_task_ids.discard(session.id)
        match event:
            case ev.SubtaskSpawned(child_id=child_id, mode=mode, message=message):
                said = f"subtask in {mode} mode: {_shorten(message)}"
                self._add_subtask(child_id, session.id, said)
            case ev.TaskPaused(child_ids=child_ids):
                for child_id in child_ids:
                    if child_id not in self._renderers:
                        said = f"continuing subtask {child_id}"
                        self._add_subtask(child_id, session.id, said)
            case ev.UserMessage(is_first=True, text=text) if session is not self._root:
                renderer.heading += f": {to_one_line(text, MAX_TITLE_CHARS)}"
                return
        if self._may_draw(session, event):
            renderer.is_alone = len(self._active_task_ids) <= 1
            renderer.render(event)

    def _add_subtask(self, task_id: str, parent_id: str, said: str = "") -> None:
        """Add a subtask; `said` announces it in a brief line, otherwise its first line does."""
        self._subtask_counts[parent_id] += 1
        number = f"{self._numbers[parent_id]}.{self._subtask_counts[parent_id]}".lstrip(".")
        self._numbers[task_id] = number
        if self._writer.is_brief:
            self._renderers[task_id] = TaskRenderer(self._writer, prefix=f"[{number}] ")
            if said:
                self._renderers[task_id].print(said, cut=True)
        else:
            heading = f"subtask {len(self._numbers) - 1}"
            self._renderers[task_id] = TaskRenderer(
                self._writer, echo=self._should_echo, heading=heading
            )

    def _may_draw(self, session: Session, event: ev.Event) -> bool:
        """Whether text can be streamed: only one task is running when it begins."""
        if self._writer.is_brief or type(event) not in ev.TRANSIENT_EVENTS:
            return True
        row = (session.id, event.ts)
        if len(self._active_task_ids) <= 1:
            self._streamed_rows.add(row)
        return row in self._streamed_rows


def _shorten(text: str, limit: int = MAX_NOTE_CHARS) -> str:
    return to_one_line(text, limit)
