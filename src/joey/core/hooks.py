"""Hooks: the user's own commands that run at certain events of a task, and their results.

A hook can block a call and add a message. It cannot allow anything that the rules or the user have
not allowed, and it cannot change an approved call: that call runs unchanged or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from joey.core.permissions.reasons import Reason
from joey.core.task_types import HOOK_NAME_PREFIX
from joey.core.terminal_text import render_terminal_output

BLOCK_EXIT_CODE = 2
MAX_MESSAGE_CHARS = 4_000
"""Characters of what a hook says that are passed on."""
MAX_TOOL_RESULT_CHARS = 20_000
"""Characters of a result that a hook is shown."""
_MAX_SHORT_COMMAND_CHARS = 120
_REMOVED_CONTROL_CHARS = dict.fromkeys((0x7F, *range(0x80, 0xA0)))


class HookEvent(StrEnum):
    BEFORE_TOOL = "beforeTool"
    """A call was allowed, by a rule or a person, and is about to run."""
    AFTER_TOOL = "afterTool"
    ON_ASK = "onAsk"
    """The task waits for a person."""
    ON_COMPLETION = "onCompletion"
    """The model hands over a result that nobody has seen yet."""


class Hook(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    event: HookEvent
    command: Annotated[str, Meta(min_length=1, max_length=8_192)]
    tools: tuple[str, ...] = ("*",)
    """Names of tools; `*` stands for any characters."""
    timeout: Annotated[float, Meta(gt=0, le=3_600)] = 30.0
    """Seconds."""
    on_failure: Literal["continue", "block"] = "continue"

    def matches(self, event: HookEvent, names: Sequence[str]) -> bool:
        """Whether the hook matches; `names` are all names of the tool, empty for events without
        one."""
        if event is not self.event:
            return False
        return any(fnmatchcase(name, one) for one in self.tools for name in names or ("",))

    @property
    def short_command(self) -> str:
        """Its command, shortened to one line."""
        line = " ".join(clean_text(self.command).split())
        return (
            line
            if len(line) <= _MAX_SHORT_COMMAND_CHARS
            else f"{line[: _MAX_SHORT_COMMAND_CHARS - 1]}…"
        )


class HookInput(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The JSON object on a hook's standard input."""

    event: HookEvent
    task_id: str
    workspace: str
    mode: str
    tool: str | None = None
    input: dict[str, Any] | None = None
    decision: Literal["allowed", "approved"] | None = None
    """By a rule, or by whoever was asked."""
    rule: str | None = None
    ask: str | None = None
    """The kind of question."""
    reason: str | None = None
    reasons: tuple[Reason, ...] = ()
    result: str | None = None
    is_error: bool | None = None


class HookExit(Struct, frozen=True):
    """How the process of a hook ended."""

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    """Why there is no exit code: it took too long, could not be started…"""


class HookReport(Struct, frozen=True):
    """The result of one hook, or of all hooks of one event."""

    block_reason: str | None = None
    blocked_by: str = ""
    messages: tuple[str, ...] = ()
    """For the person."""
    warnings: tuple[str, ...] = ()
    """Hooks that failed."""


def build_hook_report(hook: Hook, end: HookExit) -> HookReport:
    """Build the report from how a hook ended."""
    by = f"{HOOK_NAME_PREFIX}`{hook.short_command}`"
    if end.exit_code == 0:
        return HookReport(messages=_parse_message(end.stdout))
    error_text = clean_text(end.stderr)
    if end.exit_code == BLOCK_EXIT_CODE:
        return HookReport(block_reason=error_text or "(no reason was given)", blocked_by=by)
    cause = end.error or f"it ended with exit code {end.exit_code}"
    warning = f"The {hook.event} {by} failed: {cause}."
    if hook.on_failure == "continue":
        return HookReport(warnings=(warning,))
    return HookReport(
        block_reason="\n".join(filter(None, (warning, error_text))),
        blocked_by=by,
        warnings=(warning,),
    )


def merge_reports(reports: Iterable[HookReport]) -> HookReport:
    """Merge the reports; the last one may block."""
    found = list(reports)
    last = found[-1] if found else HookReport()
    return HookReport(
        block_reason=last.block_reason,
        blocked_by=last.blocked_by,
        messages=tuple(text for each in found for text in each.messages),
        warnings=tuple(text for each in found for text in each.warnings),
    )


def clean_text(text: str) -> str:
    """Clean text for display: no control characters, limited length."""
    text = render_terminal_output(text).translate(_REMOVED_CONTROL_CHARS).strip()
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    return (
        f"{text[:MAX_MESSAGE_CHARS]}\n[...{len(text) - MAX_MESSAGE_CHARS:,} characters left out...]"
    )


def truncate_result(result: str) -> str:
    """Keep the beginning and end of a long result."""
    if len(result) <= MAX_TOOL_RESULT_CHARS:
        return result
    half = MAX_TOOL_RESULT_CHARS // 2
    left_out = len(result) - 2 * half
    return f"{result[:half]}\n[...{left_out:,} characters left out...]\n{result[-half:]}"


def _parse_message(stdout: str) -> tuple[str, ...]:
    """Parse `{"message": …}`; other output of a hook is ignored."""
    if not stdout.lstrip().startswith("{"):
        return ()
    try:
        said = msgspec.json.decode(stdout)
    except (msgspec.DecodeError, RecursionError):
        return ()
    message = said.get("message") if isinstance(said, dict) else None
    return (clean_text(message),) if isinstance(message, str) and message.strip() else ()
