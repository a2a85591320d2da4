"""Rendering of events in a terminal, line by line, for a task and its subtasks.

`TaskRenderer` draws one task, `TaskTreeRenderer` several on one terminal: a heading names the task
whenever it changes. While one task speaks alone, its text is drawn as it streams; when several
speak at a time, each is drawn in whole pieces, so that their lines do not mix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from joey.cli.repl.markdown import MarkdownStreamRenderer, WrappingWriter
from joey.client.session import Session
from joey.core.events import (
    TRANSIENT_EVENTS,
    ArgumentsDelta,
    AskAnswered,
    AskOpened,
    CommandOutputDelta,
    ContextCondensed,
    ContextTruncated,
    Event,
    ModeSwitched,
    ReplyReceived,
    RequestStarted,
    RetryCountdown,
    RowAdded,
    RowDelta,
    RowOpened,
    SubtaskSpawned,
    TaskAborted,
    TaskFailed,
    TaskFinished,
    TaskPaused,
    TaskRewound,
    TaskStarted,
    TaskUnpaused,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    UsageChanged,
    UserMessage,
)
from joey.core.messages import CallPart, ReasoningPart, TextPart
from joey.core.task import APPROVAL_ASKS
from joey.presentation.phrases import (
    COMMAND_TOOL,
    command_end,
    describe_error,
    describe_provider_error,
    shrinkage,
    waiting,
)
from joey.presentation.questions import held_by, hint_of, question_of, why_asked
from joey.presentation.text import MIN_WIDTH, one_line, sanitise
from joey.presentation.tool_calls import CommandOutputPreview, card, is_custom, wrapped

if TYPE_CHECKING:
    from rich.console import Console


MAX_REASONING_LINES = 8
MAX_RULE_CHARS = 2000
"""Characters: a person has to see what they allow."""
_TODO_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
_ANSWERED_BY_USER = "person"


class TaskRenderer:
    """Draws one task. Whatever is on the current line is finished before anything else is."""

    def __init__(self, console: Console, *, echo: bool = False) -> None:
        """With `echo` the person's words are drawn too, for screens where nobody types them."""
        self._console = console
        self._echo = echo
        self._row: int | None = None
        """The row whose text stands unfinished on the current line."""
        self._passing = False
        """The current line holds a note that the next thing wipes out."""
        self._text_streams: dict[int, MarkdownStreamRenderer] = {}
        """Rows of text that were shown while they grew."""
        self._read: set[int] = set()
        """Rows of text of the latest reply, which were shown whole."""
        self._reasoning: dict[int, WrappingWriter] = {}
        self._output: CommandOutputPreview | None = None
        self._asked: dict[int, str] = {}
        """Calls that a person or a policy was asked about, by the question."""
        self._rejected: set[str] = set()
        self._custom: set[str] = set()
        """Calls of tools that the user wrote: only their results say what they did."""

    def show(self, event: Event) -> None:
        if type(event) in TRANSIENT_EVENTS:
            self._show_passing(event)
        else:
            self._show_lasting(event)

    def _show_passing(self, event: Event) -> None:
        match event:
            case RowDelta():
                self._grow(event)
            case RowOpened(say="reasoning", ts=ts):
                self._reasoning[ts] = WrappingWriter(self._console)
            case RowOpened(tool=str(tool)):
                self.passing(f"{tool}…")
            case RowOpened(say="condense_context"):
                self.passing("condensing the conversation…")
            case RetryCountdown(seconds=seconds) if seconds:
                self.passing(
                    f"{waiting(event)}: {one_line(describe_provider_error(event.message))}"
                )
            case CommandOutputDelta():
                self._show_output(event.output)

    def _show_lasting(self, event: Event) -> None:
        match event:
            case RequestStarted():
                self._read.clear()
                self.passing("thinking…")
            case ReplyReceived():
                self._show_unseen(event)
            case ToolStarted():
                self._show_call(event, asked=False)
            case AskOpened():
                self.ask(event)
                if event.ask in APPROVAL_ASKS and event.call_id:
                    self._asked[event.ts] = event.call_id
            case AskAnswered():
                self._answered(event)
            case ToolFinished():
                self._finish_tool(event)
            case RowAdded():
                self._said(event)
            case UserMessage(text=text) if self._echo:
                self.echo(text)
            case TodosChanged():
                marks = (f"  {_TODO_MARKS[todo.status]} {todo.content}" for todo in event.todos)
                self.print(Text(sanitise("\n".join(marks))))
            case ContextCondensed() | ContextTruncated():
                self.note(shrinkage(event))
            case ModeSwitched(mode=mode):
                self.note(f"now in {mode} mode")
            case TaskAborted() | TaskRewound():
                went_back = isinstance(event, TaskRewound)
                self.note("back at an earlier message" if went_back else "interrupted")
            case TaskFailed():
                self.error(event.message)

    # What others may print in between

    def print(self, what: Text, deeper: int = 0) -> None:
        self._end_line()
        text = wrapped(what, self._width, deeper)
        self._console.print(text, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        self.print(Text(sanitise(text), "dim"))

    def error(self, text: str) -> None:
        self.print(Text(f"! {sanitise(text)}", "red"))

    def echo(self, text: str) -> None:
        self.print(Text(f"\n› {sanitise(text)}", "bold"))

    def prompt(self, text: str) -> None:
        """Leave the cursor behind a question."""
        self._end_line()
        hint = wrapped(Text.assemble((f"{text} ", "dim"), ("›", "bold")), self._width)
        self._console.print(hint, end=" ", highlight=False, soft_wrap=True)

    def leave_prompt(self) -> None:
        """The cursor stands behind a question that no line was typed to."""
        self._console.out("")

    @property
    def echoes(self) -> bool:
        return self._echo

    def shows_result(self, event: ToolFinished) -> bool:
        """Whether the end of this call will be drawn."""
        return event.tool == COMMAND_TOOL or event.call_id in self._custom

    def another(self) -> TaskRenderer:
        """One for another task on the same screen."""
        return TaskRenderer(self._console, echo=self._echo)

    def rest(self) -> None:
        """Finish the current line: somebody else is going to draw."""
        self._end_line()

    def passing(self, text: str) -> None:
        """A note that stays only until there is something to show."""
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        self._end_line()
        note = Text(one_line(text, 4 * self._console.width), "dim")
        note.truncate(self._console.width - 1, overflow="ellipsis")
        self._console.print(note, end="", no_wrap=True, highlight=False)
        self._passing = True

    def ask(self, ask: AskOpened) -> None:
        """What is asked and what may be answered, with the cursor behind it."""
        if ask.ask in APPROVAL_ASKS:
            self._show_call(ask, asked=True)
            if ask.is_protected:
                self.print(Text("  This file steers joey itself.", "yellow"))
            if ask.reason:
                why = why_asked(ask.reason, ask.text if ask.tool == COMMAND_TOOL else "")
                self.note(f"  asks because {one_line(why, 200)}")
            if ask.sandbox is not None:
                is_held = ask.sandbox in ("full", "landlock")
                self.print(Text(f"  {held_by(ask.sandbox)}", "dim" if is_held else "yellow"))
            if ask.always_rule:
                self.note(f"  always: {one_line(ask.always_rule, MAX_RULE_CHARS)}")
        if question := question_of(ask):
            self.print(Text(f"\n{question}", "bold"))
        self.prompt(hint_of(ask))

    @property
    def _width(self) -> int | None:
        """Where lines are to be broken; None where there is no edge."""
        return max(MIN_WIDTH, self._console.width) if self._console.is_terminal else None

    # Pieces of text

    def _grow(self, event: RowDelta) -> None:
        if event.ts in self._reasoning:
            self._grow_reasoning(event)
            return
        if self._row != event.ts:
            self._end_line()
            self._row = event.ts
            self._console.out("")
        if event.ts not in self._text_streams:
            self._text_streams[event.ts] = MarkdownStreamRenderer(self._console)
        self._text_streams[event.ts].feed(sanitise(event.delta))

    def _grow_reasoning(self, event: RowDelta) -> None:
        """The beginning of a block, dimmed; the rest is folded away."""
        flow = self._reasoning[event.ts]
        if flow.lines >= MAX_REASONING_LINES:
            return
        if self._row != event.ts:
            self._end_line()
            self._row = event.ts
        for line in sanitise(event.delta).splitlines(keepends=True):
            flow.put(line, "dim italic")
            if flow.lines >= MAX_REASONING_LINES:
                self._end_line()
                self._console.out("…", style="dim italic")
                return

    def _show_unseen(self, event: ReplyReceived) -> None:
        """Parts whose growth was not heard."""
        for placed in event.parts:
            if placed.ts in self._text_streams or placed.ts in self._reasoning:
                continue
            match placed.part:
                case TextPart(text=text) if text.strip():
                    self._grow(RowDelta(ts=placed.ts, delta=text))
                case ReasoningPart(text=text) if text:
                    self.print(Text(one_line(text, 400), "dim italic"))
        self._end_line()
        self._read.update(self._text_streams)
        self._text_streams.clear()
        self._reasoning.clear()

    def _end_line(self) -> None:
        if self._passing:
            self._console.file.write("\r\x1b[K")
            self._passing = False
        if self._row is None:
            return
        row, self._row = self._row, None
        if row in self._text_streams:
            self._text_streams[row].pause()
        else:
            self._reasoning[row].finish()

    # Tools

    def _show_call(self, event: ToolStarted | AskOpened, *, asked: bool) -> None:
        if event.call_id and is_custom(event.text):
            self._custom.add(event.call_id)
        # The lines of a command must not be taken for one line that was broken.
        deeper = 2 if event.tool == COMMAND_TOOL else 0
        self.print(card(event.tool or "", event.text, event.path, event.diff, asked=asked), deeper)

    def _show_output(self, output: str) -> None:
        self._output = self._output or CommandOutputPreview()
        for line in self._output.feed(output):
            self._output_line(line)

    def _show_whole(self, text: str) -> None:
        output = CommandOutputPreview()
        for line in (*output.feed(text), *output.close()):
            self._output_line(line)

    def _output_line(self, line: str) -> None:
        self.print(Text(f"  │ {line}", "dim"))

    def _finish_tool(self, event: ToolFinished) -> None:
        output, self._output = self._output, None
        if output is not None:
            for line in output.close():
                self._output_line(line)
        if event.call_id in self._rejected:
            self._rejected.discard(event.call_id)
            self.note("  rejected")
        elif event.call_id in self._custom:
            self._custom.discard(event.call_id)
            self._show_whole(event.content)
        elif event.tool == COMMAND_TOOL and (end := command_end(event)):
            self.note(f"  {end}")

    def _answered(self, event: AskAnswered) -> None:
        call = self._asked.pop(event.ask_ts, None)
        if call is not None and not event.answer.approves:
            self._rejected.add(call)
        if event.by != _ANSWERED_BY_USER:
            self._console.out(_typed(event, event.by), style="bold", highlight=False)

    def _said(self, event: RowAdded) -> None:
        match event.say:
            case "error":
                self.error(one_line(describe_error(event.text), 400))
            case "hook_message":
                self.note(one_line(event.text, 400))
            case "rooignore_error":
                self.error(f"{one_line(event.text)} is hidden by .rooignore")
            case "completion_result" if event.ts in self._read:
                self.print(Text("\n✓ answered", "bold green"))
            case "completion_result":
                self._show_result(event.text)
            case "command_output" if self._output is None:
                self._show_output(event.text)
            case "mcp_server_response":
                self._show_output(f"{event.text}\n")
            case "condense_context_error":
                self.note(f"not condensed: {one_line(event.text, 400)}")
            case "api_req_retry_delayed":
                self.note(one_line(describe_provider_error(event.text), 400))

    def _show_result(self, text: str) -> None:
        self.print(Text("\n✓ result", "bold green"))
        result = MarkdownStreamRenderer(self._console)
        result.feed(sanitise(text))
        result.pause()


def _typed(event: AskAnswered, by: str) -> str:
    """The answer of a policy, where a person would have typed theirs."""
    return f"{sanitise(event.answer.text) or ('y' if event.answer.approves else 'n')} ({by})"


MAX_TITLE_CHARS = 70
HIDDEN_ROW_KINDS = frozenset({"api_req_retried", "subtask_result"})


class TaskTreeRenderer:
    def __init__(self, root: Session, renderer: TaskRenderer) -> None:
        self._root = root
        self._renderers = {root.id: renderer}
        """Each task has its own, all for the same screen."""
        self._front: Session = root
        """Whose lines were drawn last."""
        self._speaking = {root.id}
        self._begun: set[tuple[str, int]] = set()
        """Rows that are drawn while they grow."""
        self._names: dict[str, str] = {}

    @property
    def listener(self) -> Session:
        """The one to whom words are said that were not asked for."""
        heeds = self._front.id in self._speaking and self._front.running
        return self._front if heeds else self._root

    def show(self, teller: Session, event: Event) -> None:
        self._note(teller, event)
        if type(event) in TRANSIENT_EVENTS and not self._may_grow(teller, event):
            return
        if isinstance(event, UserMessage) and event.is_first and teller is not self._root:
            return  # the headline says it
        if self._is_seen(teller, event):
            self.renderer(teller).show(event)
        elif not isinstance(event, RequestStarted):
            self._renderer_of(teller).show(event)

    def renderer(self, teller: Session) -> TaskRenderer:
        """That of `teller`, which is in front from now on."""
        renderer = self._renderer_of(teller)
        if teller.id != self._front.id:
            self._renderer_of(self._front).rest()
            self._front = teller
            renderer.note(f"\n┄┄ {self._name(teller)}")
        return renderer

    def _renderer_of(self, teller: Session) -> TaskRenderer:
        if teller.id not in self._renderers:
            self._renderers[teller.id] = self._renderers[self._root.id].another()
        return self._renderers[teller.id]

    def _note(self, teller: Session, event: Event) -> None:
        match event:
            case SubtaskSpawned(child_id=child_id):
                self._number(child_id)
            case UserMessage(is_first=True, text=text) if teller is not self._root:
                self._names[teller.id] = (
                    f"{self._number(teller.id)}: {one_line(text, MAX_TITLE_CHARS)}"
                )
            case TaskStarted() | TaskUnpaused():
                self._speaking.add(teller.id)
            case TaskPaused() | TaskFinished() | TaskAborted() | TaskFailed():
                self._speaking.discard(teller.id)

    def _number(self, task_id: str) -> str:
        return self._names.setdefault(task_id, f"subtask {len(self._names) + 1}")

    def _name(self, teller: Session) -> str:
        return "the task goes on" if teller is self._root else self._number(teller.id)

    @property
    def _is_solo(self) -> bool:
        return len(self._speaking) <= 1

    def _may_grow(self, teller: Session, event: Event) -> bool:
        row = (teller.id, event.ts)
        if self._is_solo:
            self._begun.add(row)
        return row in self._begun

    def _is_seen(self, teller: Session, event: Event) -> bool:
        """Whether something will be drawn; what nobody sees brings nobody to the front."""
        match event:
            case RequestStarted():
                return self._is_solo
            case ReplyReceived(parts=parts):
                return any(
                    not isinstance(placed.part, CallPart)
                    and bool(placed.part.text.strip())
                    and (teller.id, placed.ts) not in self._begun
                    for placed in parts
                )
            case RowOpened(tool=tool):
                return tool is not None
            case ToolFinished():
                return self._renderer_of(teller).shows_result(event)
            case RowAdded(say=say):
                return say not in HIDDEN_ROW_KINDS
            case UserMessage():
                return self._renderer_of(teller).echoes
            case UsageChanged() | ArgumentsDelta():
                return False
            case AskOpened() | ToolStarted() | TodosChanged() | ModeSwitched():
                return True
            case TaskAborted() | TaskFailed() | ContextCondensed() | ContextTruncated():
                return True
            case _:
                return type(event) in TRANSIENT_EVENTS
