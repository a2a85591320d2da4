"""Events as a person sees them in a terminal, line by line: words as they come, cards for tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from joey.cli.answers import hint_of, question_of
from joey.cli.cards import COMMAND_TOOL, CommandOutput, card
from joey.cli.sanitise import one_line, sanitise
from joey.core.asks import APPROVALS
from joey.core.events import (
    PASSING,
    AskAnswered,
    AskOpened,
    CommandGrew,
    Countdown,
    Event,
    ReplyReceived,
    RequestStarted,
    RowGrew,
    RowOpened,
    Said,
    TaskAborted,
    TaskFailed,
    TodosChanged,
    ToolAnnounced,
    ToolFinished,
    UserSaid,
)
from joey.core.messages import ReasoningPart, TextPart

if TYPE_CHECKING:
    from rich.console import Console

REASONING_LINES = 8
_TODO_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
_PERSON = "person"


class Renderer:
    """Draws one task. Whatever is on the current line is finished before anything else is."""

    def __init__(self, console: Console, *, echo: bool = False) -> None:
        """With `echo` the person's words are drawn too, for screens where nobody types them."""
        self._console = console
        self._echo = echo
        self._row: int | None = None
        """The row whose text stands unfinished on the current line."""
        self._passing = False
        """The current line holds a note that the next thing wipes out."""
        self._told: set[int] = set()
        """Rows that were shown while they grew."""
        self._reasoning: dict[int, int] = {}
        """Lines shown of each block of reasoning."""
        self._output: CommandOutput | None = None

    def show(self, event: Event) -> None:
        if type(event) in PASSING:
            self._show_passing(event)
        else:
            self._show_lasting(event)

    def _show_passing(self, event: Event) -> None:
        match event:
            case RowGrew():
                self._grow(event)
            case RowOpened(say="reasoning", ts=ts):
                self._reasoning[ts] = 0
            case RowOpened(tool=str(tool)):
                self.passing(f"{tool}…")
            case Countdown(seconds=seconds) if seconds:
                self.passing(f"trying again in {seconds} s: {one_line(event.message)}")
            case CommandGrew():
                self._show_output(event.output)

    def _show_lasting(self, event: Event) -> None:
        match event:
            case RequestStarted():
                self.passing("thinking…")
            case ReplyReceived():
                self._show_unseen(event)
            case ToolAnnounced():
                self.print(card(event.tool, event.text, event.path, event.diff, asked=False))
            case AskOpened():
                self.ask(event)
            case AskAnswered(by=by) if by != _PERSON:
                self._console.out(_typed(event, by), style="bold", highlight=False)
            case ToolFinished():
                self._finish_tool(event)
            case Said():
                self._said(event)
            case UserSaid(text=text) if self._echo:
                self.echo(text)
            case TodosChanged():
                marks = (f"  {_TODO_MARKS[todo.status]} {todo.content}" for todo in event.todos)
                self.print(Text(sanitise("\n".join(marks))))
            case TaskAborted():
                self.note("interrupted")
            case TaskFailed():
                self.error(event.message)

    # What others may print in between

    def print(self, what: object) -> None:
        self._end_line()
        self._console.print(what, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        self.print(Text(sanitise(text), "dim"))

    def error(self, text: str) -> None:
        self.print(Text(f"! {sanitise(text)}", "red"))

    def echo(self, text: str) -> None:
        self.print(Text(f"\n› {sanitise(text)}", "bold"))

    def prompt(self, text: str) -> None:
        """Leave the cursor behind a question."""
        self._end_line()
        self._console.print(Text.assemble((text, "dim"), (" › ", "bold")), end="", highlight=False)

    def passing(self, text: str) -> None:
        """A note that stays only until there is something to show."""
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        self._end_line()
        self._console.print(
            Text(one_line(text, self._console.width - 1), "dim"), end="", no_wrap=True
        )
        self._passing = True

    def ask(self, ask: AskOpened) -> None:
        """What is asked and what may be answered, with the cursor behind it."""
        if ask.ask in APPROVALS:
            self.print(card(ask.tool or "", ask.text, ask.path, ask.diff, asked=True))
            if ask.protected:
                self.print(Text("  This file steers joey itself.", "yellow"))
            if ask.reason:
                self.note(f"  asked because of: {one_line(ask.reason, 160)}")
        if question := question_of(ask):
            self.print(Text(question, "bold"))
        self.prompt(hint_of(ask))

    # Pieces of text

    def _grow(self, event: RowGrew) -> None:
        if event.ts in self._reasoning:
            self._grow_reasoning(event)
            return
        text = sanitise(event.delta)
        if self._row != event.ts:
            self._end_line()
            self._row = event.ts
            text = f"\n{text}"
        self._told.add(event.ts)
        self._console.out(text, end="", highlight=False)

    def _grow_reasoning(self, event: RowGrew) -> None:
        """The beginning of a block, dimmed; the rest is folded away."""
        self._told.add(event.ts)
        lines = self._reasoning[event.ts]
        if lines >= REASONING_LINES:
            return
        if self._row != event.ts:
            self._end_line()
            self._row = event.ts
        text = sanitise(event.delta)
        kept = "\n".join(text.split("\n")[: REASONING_LINES - lines])
        self._reasoning[event.ts] = lines + text.count("\n")
        if len(kept) < len(text):
            kept += " …"
        self._console.out(kept, style="dim italic", end="", highlight=False)

    def _show_unseen(self, event: ReplyReceived) -> None:
        """Parts whose growth was not heard."""
        for placed in event.parts:
            if placed.ts in self._told:
                continue
            match placed.part:
                case TextPart(text=text) if text.strip():
                    self.print(Text(f"\n{sanitise(text)}"))
                case ReasoningPart(text=text) if text:
                    self.print(Text(one_line(text, 400), "dim italic"))
        self._end_line()
        self._told.clear()
        self._reasoning.clear()

    def _end_line(self) -> None:
        if self._passing:
            self._console.file.write("\r\x1b[K")
            self._passing = False
        if self._row is not None:
            self._row = None
            self._console.out("", highlight=False)

    # Tools

    def _show_output(self, output: str) -> None:
        self._output = self._output or CommandOutput()
        for line in self._output.feed(output):
            self._output_line(line)

    def _output_line(self, line: str) -> None:
        self._end_line()
        self._console.out(f"  │ {line}", style="dim", highlight=False)

    def _finish_tool(self, event: ToolFinished) -> None:
        output, self._output = self._output, None
        if output is not None:
            for line in output.close():
                self._output_line(line)
        if event.tool == COMMAND_TOOL and "Exit code: 0" not in event.content[:400]:
            self.note(f"  {one_line(event.content.partition('Output:')[0], 200)}")

    def _said(self, event: Said) -> None:
        match event.say:
            case "error":
                self.error(one_line(event.text, 400))
            case "completion_result":
                self._show_result(event.text)
            case "command_output" if self._output is None:
                self._show_output(event.text)
            case "api_req_retry_delayed":
                self.note(one_line(event.text, 200))

    def _show_result(self, text: str) -> None:
        from rich.markdown import Markdown

        self.print(Text("\n✓ result", "bold green"))
        self._console.print(Markdown(sanitise(text), hyperlinks=False))


def _typed(event: AskAnswered, by: str) -> str:
    """The answer of a policy, where a person would have typed theirs."""
    return f"{sanitise(event.answer.text) or ('y' if event.answer.approves else 'n')} ({by})"
