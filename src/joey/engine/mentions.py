"""Mentions and slash commands in user messages, expanded into content for the model.

`@/src/app.py` and the like are replaced by a name in the text, and their content follows in blocks
of its own. So do slash commands; the first one that wants a mode switches to it. Content that
cannot be fetched is replaced by a note: no message is refused for it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from joey.core.diagnostics import format_diagnostics
from joey.core.events import ModeSwitched, RowAdded
from joey.core.history.ui import Row
from joey.core.mentions import (
    MentionKind,
    find_command_mentions,
    find_mentions,
    format_mention,
    replace_spans,
)
from joey.core.messages import TextBlock, UserBlock, build_image_block
from joey.core.models import ToolProtocol
from joey.core.modes import SlashCommand, find_mode, grants_more_than
from joey.core.permissions.policy import Access, Allow, Claim, decide
from joey.core.prompts import replies
from joey.engine.runtime import tool_context
from joey.errors import ToolError
from joey.ports import Repository, ResolvedPath, ToolContext
from joey.tools.file_view import FileReadRequest, FileView, FileViewer, render

if TYPE_CHECKING:
    from joey.engine.task import Task

MAX_MENTIONS = 50
MAX_FILES_PER_DIRECTORY = 30
MAX_LISTED_ENTRIES = 200

TextWrapper = Callable[[str], str]


async def expand_mentions(
    task: Task,
    text: str,
    images: Sequence[str] = (),
    wrap: TextWrapper = replies.render_user_message,
) -> tuple[UserBlock, ...]:
    """A message in blocks. `wrap` puts the tags around the text that say whose words they are."""
    image_blocks = tuple(build_image_block(uri) for uri in images)
    if image_blocks and not text:
        return image_blocks
    if "@" not in text and "/" not in text:
        return (TextBlock(wrap(text)), *image_blocks)
    text, commands = _call_commands(task, text)
    mentions = find_mentions(text)[:MAX_MENTIONS]
    shown = replace_spans(text, [(m.start, m.end, format_mention(m)) for m in mentions])
    bringing = _MentionFetcher(task)
    brought: list[UserBlock] = []
    for mention in dict.fromkeys((mention.kind, mention.subject) for mention in mentions):
        brought += await bringing.bring(*mention)
    return (TextBlock(wrap(shown)), *image_blocks, *commands, *brought)


def _call_commands(task: Task, text: str) -> tuple[str, list[UserBlock]]:
    """The text with its slash commands replaced, and their contents."""
    known = _known_commands(task)
    called = [mention for mention in find_command_mentions(text) if mention.name in known]
    unique = [known[name] for name in dict.fromkeys(mention.name for mention in called)]
    wanting = next((command for command in unique if command.mode), None)
    if wanting is not None:
        _follow(task, wanting)
    replaced = [
        (mention.start, mention.end, f"Command '{mention.name}' (see below for command content)")
        for mention in called
    ]
    return replace_spans(text, replaced), [_command_block(each) for each in unique]


def _follow(task: Task, command: SlashCommand) -> None:
    """Into the mode of a command; what a project wrote leads into one that may do more only where
    modes may be switched unasked."""
    mode = find_mode(command.mode or "", task.runtime.modes)
    if mode is None or mode.slug == task.mode.slug:
        return
    is_free = isinstance(decide((Claim(Access.SWITCH_MODE),), task.settings), Allow)
    if command.source == "project" and grants_more_than(mode, task.mode) and not is_free:
        text = (
            f"/{command.name} of the project wants {mode.slug} mode, which may do more; this is"
            f" still {task.mode.slug} mode. Switch the mode yourself, or set alwaysAllowModeSwitch."
        )
        task.publish(RowAdded(ts=task.now(), say="error", text=text))
        return
    task.publish(ModeSwitched(ts=task.now(), mode=mode.slug))


def _known_commands(task: Task) -> dict[str, SlashCommand]:
    """Slash commands by name; a skill can be called like one where no command has its name."""
    customizations = task.runtime.capabilities.customizations
    if customizations is None:
        return {}
    skills = {
        skill.name: SlashCommand(
            name=skill.name,
            content=f"Use the skill `{skill.name}`: fetch its instructions with the skill tool.",
            description=skill.description,
            source=skill.source,
        )
        for skill in customizations.list_skills(task.mode)
    }
    return skills | {command.name: command for command in customizations.list_commands()}


def _command_block(command: SlashCommand) -> TextBlock:
    about = f"Description: {command.description}\n\n" if command.description else ""
    return _tagged("command", f"{about}{command.content}", name=command.name)


class _MentionFetcher:
    """Fetches what the mentions of one message point at; files share one budget of text."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._runtime = task.runtime
        self._context: ToolContext = tool_context(task, "mention", task.now())
        self._viewer = FileViewer(self._context)

    async def bring(self, kind: MentionKind, subject: str) -> list[UserBlock]:
        try:
            match kind:
                case MentionKind.FILE:
                    return await self._file(subject)
                case MentionKind.DIRECTORY:
                    return await self._read_directory(subject)
                case MentionKind.URL:
                    return [_tagged("url_content", await self._page(subject), url=subject)]
                case MentionKind.PROBLEMS:
                    return [_tagged("workspace_diagnostics", await self._collect_diagnostics())]
                case MentionKind.GIT_CHANGES:
                    return [_tagged("git_working_state", await self._repository().changes())]
                case MentionKind.COMMIT:
                    commit = await self._repository().commit(subject)
                    return [_tagged("git_commit", commit, hash=subject)]
                case MentionKind.TERMINAL:
                    return [_tagged("terminal_output", self._terminal())]
        except ToolError as error:
            about = f" {subject}" if subject else ""
            return [TextBlock(f"[The {kind}{about} that was mentioned is not shown: {error}]")]

    async def _file(self, path: str) -> list[UserBlock]:
        entry = await self._viewer.view(FileReadRequest(path), self._place(path))
        return _shown(f"[read_file for '{path}']", [entry])

    async def _read_directory(self, path: str) -> list[UserBlock]:
        place = self._place(path)
        listing = await self._runtime.search.list(place, False, MAX_LISTED_ENTRIES)
        names = listing.entries
        tree = [
            f"{'└── ' if name == names[-1] and not listing.truncated else '├── '}{name}"
            for name in names
        ]
        if listing.truncated:
            tree.append(f"└── … (more than {MAX_LISTED_ENTRIES} entries)")
        files = [name for name in names if not name.endswith("/")][:MAX_FILES_PER_DIRECTORY]
        entries = [await self._file_of(path, name) for name in files]
        head = f"[read_file for folder '{path}']\nFolder listing:\n" + "\n".join(tree)
        readable = [entry for entry in entries if entry.binary is None and entry.error is None]
        if not readable:
            return [TextBlock(head)]
        return _shown(f"{head}\n\n--- File Contents ---", readable)

    async def _file_of(self, directory: str, name: str) -> FileView:
        path = name if directory == "." else f"{directory}/{name}"
        try:
            place = self._place(path)  # a link in the folder may lead anywhere
        except ToolError as error:
            return FileView(path, error=str(error))
        return await self._viewer.view(FileReadRequest(path), place)

    def _place(self, path: str) -> ResolvedPath:
        place = self._runtime.files.resolve(path)
        if place.is_ignored:
            raise ToolError(place.ignore_error or "it is hidden by .rooignore")
        if not place.is_inside:
            raise ToolError("it is outside of the workspace")
        return place

    async def _page(self, url: str) -> str:
        pages = self._runtime.capabilities.pages
        if pages is None:
            raise ToolError("pages cannot be fetched here")
        return await pages.fetch_text(url)

    async def _collect_diagnostics(self) -> str:
        problems = self._runtime.capabilities.diagnostics
        if problems is None:
            raise ToolError("no checker was found for the languages of this workspace")
        limit = self._runtime.settings.max_diagnostic_messages
        most = sys.maxsize if limit < 0 else limit
        return (
            format_diagnostics(await problems.check_workspace(most))
            or "No errors or warnings detected."
        )

    def _repository(self) -> Repository:
        repository = self._runtime.capabilities.repository
        if repository is None:
            raise ToolError("there is no git here")
        return repository

    def _terminal(self) -> str:
        for row in reversed(self._task.rows):
            if isinstance(row, Row) and row.say == "command_output" and row.text:
                return row.text
        raise ToolError("no command has printed anything in this task")


def _shown(head: str, entries: list[FileView]) -> list[UserBlock]:
    text = TextBlock(f"{head}\n{render(entries, ToolProtocol.NATIVE)}")
    return [text, *(build_image_block(entry.image) for entry in entries if entry.image is not None)]


def _tagged(tag: str, text: str, **attributes: str) -> TextBlock:
    """What others wrote does not end before its closing tag."""
    from html import escape  # with all names of characters, which few prompts need

    named = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    contained = re.sub(rf"<(?=\s*+(?:/\s*+)?{tag}\b)", "&lt;", text, flags=re.IGNORECASE)
    return TextBlock(f"<{tag}{named}>\n{contained}\n</{tag}>")
