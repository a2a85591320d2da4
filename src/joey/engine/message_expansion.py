"""Mentions and slash commands in user messages, expanded into content for the model.

Mentions such as `@/src/app.py` are replaced by a name in the text, and their content follows in
separate blocks. Slash commands are expanded likewise; the first one with a mode switches to it.
Content that cannot be fetched is replaced by a note: it never fails the message.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from joey.core.diagnostics import format_diagnostics
from joey.core.events import ModeSwitched
from joey.core.history.ui import Row
from joey.core.mentions import (
    Mention,
    MentionKind,
    fill_arguments,
    find_command_mentions,
    find_mentions,
    format_mention,
    replace_spans,
)
from joey.core.messages import TextBlock, UserBlock, build_image_block
from joey.core.models import ToolProtocol
from joey.core.modes import SlashCommand, find_mode, grants_more_than
from joey.core.path_access import ResolvedPath
from joey.core.permissions.policy import Access, Allow, Claim, decide
from joey.core.prompts import messages_to_model
from joey.core.task_types import RowKind
from joey.engine.outcomes import OutputRow
from joey.engine.runtime import build_tool_context
from joey.errors import ToolError
from joey.tools.file_view import FileReadRequest, FileView, FileViewer, render_views

if TYPE_CHECKING:
    from joey.engine.task import Task

MAX_MENTIONS = 50
MAX_CANDIDATES = 500
"""Words with an `@` that are looked for in the workspace."""
MAX_FILES_PER_DIRECTORY = 30
MAX_LISTED_ENTRIES = 200
_NO_GIT = "there is no git here"

T = TypeVar("T")
TextWrapper = Callable[[str], str]


async def expand_message(
    task: Task,
    text: str,
    images: Sequence[str] = (),
    wrap: TextWrapper = messages_to_model.render_user_message,
) -> tuple[UserBlock, ...]:
    """Expand a message into blocks. `wrap` adds the tags that say who wrote the text."""
    image_blocks = tuple(build_image_block(uri) for uri in images)
    if image_blocks and not text:
        return image_blocks
    if "@" not in text and "/" not in text:
        return (TextBlock(wrap(text)), *image_blocks)
    text, commands = _expand_commands(task, text)
    mentions = [mention async for mention in _find_existing(task, text)][:MAX_MENTIONS]
    displayed = replace_spans(text, [(m.start, m.end, format_mention(m)) for m in mentions])
    fetcher = _MentionFetcher(task)
    fetched: list[UserBlock] = []
    for mention in dict.fromkeys((mention.kind, mention.subject) for mention in mentions):
        fetched += await fetcher.fetch(*mention)
    return (TextBlock(wrap(displayed)), *image_blocks, *commands, *fetched)


async def _find_existing(task: Task, text: str) -> AsyncIterator[Mention]:
    """Find mentions of existing files: `@/components/Button` may be an import, not a file, and
    `@someone` a person."""
    files = task.runtime.files
    for mention in find_mentions(text)[:MAX_CANDIDATES]:
        if mention.kind not in (MentionKind.FILE, MentionKind.DIRECTORY):
            yield mention
            continue
        try:
            path = files.resolve(mention.subject)
            stat = await files.stat(path) if path.is_inside and not path.is_ignored else None
        except ToolError:
            continue
        if stat is None:  # do not reveal even this about hidden or outside paths
            yield mention
        elif stat.is_dir and mention.is_bare_name:
            yield structs.replace(mention, kind=MentionKind.DIRECTORY)
        elif stat.exists:
            yield mention


def _expand_commands(task: Task, text: str) -> tuple[str, list[UserBlock]]:
    """Replace the slash commands of a text; return it with their contents."""
    available = _collect_commands(task)
    called = [mention for mention in find_command_mentions(text) if mention.name in available]
    unique = list(
        dict.fromkeys(
            _fill_command(
                available[mention.name], text[mention.end : following.start if following else None]
            )
            for mention, following in zip_longest(called, called[1:])
        )
    )
    switching = next((command for command in unique if command.mode), None)
    if switching is not None:
        _switch_to_command_mode(task, switching)
    replaced = [
        (mention.start, mention.end, f"Command '{mention.name}' (see below for command content)")
        for mention in called
    ]
    blocks: list[UserBlock] = []
    for command in unique:
        about = f"Description: {command.description}\n\n" if command.description else ""
        content = f"{about}{command.content}"
        blocks.append(_build_tagged_block("command", content, name=command.name))
    return replace_spans(text, replaced), blocks


def _fill_command(command: SlashCommand, arguments: str) -> SlashCommand:
    return structs.replace(command, content=fill_arguments(command.content, arguments.strip()))


def _switch_to_command_mode(task: Task, command: SlashCommand) -> None:
    """Switch to the mode of a command; a project's command may switch to a less restricted mode
    only if modes may be switched without approval."""
    mode = find_mode(command.mode or "", task.runtime.modes)
    if mode is None or mode.slug == task.mode.slug:
        return
    is_allowed = isinstance(decide((Claim(Access.SWITCH_MODE),), task.settings), Allow)
    if command.source == "project" and grants_more_than(mode, task.mode) and not is_allowed:
        text = (
            f"/{command.name} of the project wants {mode.slug} mode, which may do more; this is"
            f" still {task.mode.slug} mode. Switch the mode yourself, or set alwaysAllowModeSwitch."
        )
        task.add_row(RowKind.ERROR, text)
        return
    task.publish(ModeSwitched(ts=task.next_ts(), mode=mode.slug))


def _collect_commands(task: Task) -> dict[str, SlashCommand]:
    """Collect slash commands by name; a skill can be called like one if no command has its name."""
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


class _MentionFetcher:
    """Fetches the targets of one message's mentions; files share one size limit."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._runtime = task.runtime
        self._viewer = FileViewer(
            build_tool_context(task, "mention", task.next_ts(), OutputRow(task))
        )

    async def fetch(self, kind: MentionKind, subject: str) -> list[UserBlock]:
        capabilities = self._runtime.capabilities
        try:
            match kind:
                case MentionKind.FILE:
                    return await self._read_file(subject)
                case MentionKind.DIRECTORY:
                    return await self._read_directory(subject)
                case MentionKind.URL:
                    pages = _require(capabilities.page_fetcher, "pages cannot be fetched here")
                    text = await pages.fetch_text(subject)
                    return [_build_tagged_block("url_content", text, url=subject)]
                case MentionKind.PROBLEMS:
                    text = await self._collect_diagnostics()
                    return [_build_tagged_block("workspace_diagnostics", text)]
                case MentionKind.GIT_CHANGES:
                    text = await _require(capabilities.repository, _NO_GIT).show_changes()
                    return [_build_tagged_block("git_working_state", text)]
                case MentionKind.COMMIT:
                    text = await _require(capabilities.repository, _NO_GIT).show_commit(subject)
                    return [_build_tagged_block("git_commit", text, hash=subject)]
                case MentionKind.TERMINAL:
                    text = self._find_last_command_output()
                    return [_build_tagged_block("terminal_output", text)]
        except ToolError as error:
            about = f" {subject}" if subject else ""
            return [TextBlock(f"[The {kind}{about} that was mentioned is not shown: {error}]")]

    async def _read_file(self, path: str) -> list[UserBlock]:
        entry = await self._viewer.view(FileReadRequest(path), self._resolve_path(path))
        return _build_file_blocks(f"[read_file for '{path}']", [entry])

    async def _read_directory(self, path: str) -> list[UserBlock]:
        resolved = self._resolve_path(path)
        listing = await self._runtime.search.list_directory(resolved, False, MAX_LISTED_ENTRIES)
        names = listing.entries
        tree = [
            f"{'└── ' if name == names[-1] and not listing.truncated else '├── '}{name}"
            for name in names
        ]
        if listing.truncated:
            tree.append(f"└── … (more than {MAX_LISTED_ENTRIES} entries)")
        files = [name for name in names if not name.endswith("/")][:MAX_FILES_PER_DIRECTORY]
        entries = [await self._read_directory_file(path, name) for name in files]
        head = f"[read_file for folder '{path}']\nFolder listing:\n" + "\n".join(tree)
        readable = [entry for entry in entries if entry.binary_kind is None and entry.error is None]
        if not readable:
            return [TextBlock(head)]
        return _build_file_blocks(f"{head}\n\n--- File Contents ---", readable)

    async def _read_directory_file(self, directory: str, name: str) -> FileView:
        path = name if directory == "." else f"{directory}/{name}"
        try:
            resolved = self._resolve_path(path)  # a link in the directory may lead anywhere
        except ToolError as error:
            return FileView(path, error=str(error))
        return await self._viewer.view(FileReadRequest(path), resolved)

    def _resolve_path(self, path: str) -> ResolvedPath:
        resolved = self._runtime.files.resolve(path)
        if resolved.is_ignored:
            raise ToolError(resolved.ignore_error or "it is hidden by .rooignore")
        if not resolved.is_inside:
            raise ToolError("it is outside of the workspace")
        return resolved

    async def _collect_diagnostics(self) -> str:
        problems = _require(
            self._runtime.capabilities.diagnostics,
            "no checker was found for the languages of this workspace",
        )
        limit = self._runtime.settings.max_diagnostic_messages
        found = await problems.check_workspace(sys.maxsize if limit < 0 else limit)
        return format_diagnostics(found) or "No errors or warnings detected."

    def _find_last_command_output(self) -> str:
        for row in reversed(self._task.rows):
            if isinstance(row, Row) and row.say == RowKind.COMMAND_OUTPUT and row.text:
                return row.text
        raise ToolError("no command has printed anything in this task")


def _require(capability: T | None, problem: str) -> T:
    if capability is None:
        raise ToolError(problem)
    return capability


def _build_file_blocks(head: str, entries: list[FileView]) -> list[UserBlock]:
    text = TextBlock(f"{head}\n{render_views(entries, ToolProtocol.NATIVE)}")
    images = (entry.image_data_uri for entry in entries if entry.image_data_uri is not None)
    return [text, *map(build_image_block, images)]


def _build_tagged_block(tag: str, text: str, **attributes: str) -> TextBlock:
    """Build a block whose content cannot close its tag."""
    from html import escape  # loads all character names, which few prompts need

    named = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    contained = re.sub(rf"<(?=\s*+(?:/\s*+)?{tag}\b)", "&lt;", text, flags=re.IGNORECASE)
    return TextBlock(f"<{tag}{named}>\n{contained}\n</{tag}>")
