"""Where the golden tests find joey's types and functions: the only module here that follows moves
and renames.

A golden file is keyed by names that are stored or sent, or by the names given to types here. They
are part of the golden data: after a rename in joey, only the right-hand sides change.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

import joey
from joey.cli.command_line import build_run_parser
from joey.cli.commands.command_parsers import COMMAND_PARSERS
from joey.cli.commands.permission_audit_report import AuditEntry
from joey.cli.exit_codes import ExitCode, outcome_to_exit_code
from joey.cli.headless.stdin_protocol import CAPABILITIES, StdinCommand
from joey.config.config_keys import ConfigKey
from joey.config.roo_settings import PROFILE_KEYS
from joey.config.settings import DISABLEABLE_FIELDS, EXTENDABLE_FIELDS, LOWERABLE_FIELDS
from joey.core.events import Durable, Record, Spending, TokenUsage, Transient
from joey.core.history.ui import RequestInfo, Row
from joey.core.hooks import Hook, HookEvent, HookInput
from joey.core.messages import Message
from joey.core.models import ToolProtocol
from joey.core.modes import BUILT_IN_MODES, ModePromptOverride, ToolGroup
from joey.core.permissions.policy import Access
from joey.core.settings import Limits, ModelRoute, Profile, Settings, TaskSecrets
from joey.core.task_types import AskKind, FollowUp, Response, TaskState
from joey.core.wire.commands import COMMANDS, Done, TaskNeed, Welcome
from joey.core.wire.events import PAYLOAD_TYPES
from joey.core.wire.frames import AuthFrame, CommandFrame, ErrorCode, EventFrame, ResponseFrame
from joey.core.wire.schema import build_wire_schema
from joey.engine.outcomes import Failed
from joey.engine.recorder import Recorder
from joey.errors import ProviderFailureKind
from joey.mcp.config import ServerEntry as McpEntry
from joey.mcp.server_admin import ServerInfo
from joey.ports.storage import TaskMetadata
from joey.server.ipc_protocol import IpcCommand
from joey.storage.journal import decode_journal, encode_record
from joey.storage.roo_import import ImportCandidate
from joey.storage.task_directory import LockOwner
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Turn, call, fail, pause, redacted, say, think, usage
from joey.testing.server import ModelServer, Request, by_conversation
from joey.tools.registry import build_default_tools
from joey.tui.widgets.prompt_history import StoredPrompt as PromptEntry

__all__ = [
    "ModelServer",
    "Request",
    "Turn",
    "by_conversation",
    "call",
    "fail",
    "pause",
    "redacted",
    "say",
    "think",
    "usage",
]

MOST_MODULES = {"-p": 261, "-p -y": 261}
"""Modules and packages of joey that may be loaded before a run with these flags sends its first
request."""

PROGRAM = "from joey.cli.main import main\nmain(sys.argv[1:])"
"""Python that runs the command line in `sys.argv`."""

PUBLIC_NAMES: list[str] = joey.__all__

# Types ---------------------------------------------------------------------------------------

DURABLE_EVENTS: Any = Durable
PASSING_EVENTS: Any = Transient

JOURNAL = {"record": Record}
SNAPSHOTS = {
    "api_conversation_history.json, each element": Message,
    "lock": LockOwner,
    "prompt-history.jsonl, each line": PromptEntry,
    "task_metadata.json": TaskMetadata,
    "task secrets": TaskSecrets,
    "ui_messages.json, each element": Row,
    "ui_messages.json, text of api_req_started": RequestInfo,
    "ui_messages.json, text of followup": FollowUp,
}
SETTINGS = {
    "customModePrompts, each value": ModePromptOverride,
    "hooks, each element": Hook,
    "mcpServers, each value": McpEntry,
    "settings.json": Settings,
}
PROJECT_SETTINGS = {
    "off": DISABLEABLE_FIELDS,
    "added to": EXTENDABLE_FIELDS,
    "lowered": LOWERABLE_FIELDS,
}
PROFILES = {"limits": Limits, "profile": Profile, "route": ModelRoute}
PROFILE_NAMES = PROFILE_KEYS
FRAMES = {
    "auth": AuthFrame,
    "command": CommandFrame,
    "event": EventFrame,
    "response": ResponseFrame,
}
WELCOME, ANSWER_TO_AUTH = Welcome, Done
EVENT_PAYLOADS: dict[str, Any] = dict(PAYLOAD_TYPES)
HOOK_PAYLOADS = {"standard input": HookInput}
STDIN_COMMANDS = {"command": StdinCommand}
STDIN_CAPABILITIES = CAPABILITIES
IPC_COMMANDS: Any = IpcCommand
COMMAND_OUTPUTS = {
    "description of a setting": ConfigKey,
    "joey mcp list --json, each element": ServerInfo,
    "joey permissions report --json, each call": AuditEntry,
    "joey tasks import --json, each element": ImportCandidate,
    "usage": TokenUsage,
    "spent": Spending,
}
ENUMERATIONS: dict[str, Any] = {
    "access of a claim": Access,
    "command needs a task": TaskNeed,
    "error of the WebSocket API": ErrorCode,
    "kind of question": AskKind,
    "moment of a hook": HookEvent,
    "problem of a provider": ProviderFailureKind,
    "protocol of tools": ToolProtocol,
    "response to a question": Response,
    "status of a task": TaskState,
    "tool group": ToolGroup,
}


def websocket_commands() -> dict[str, dict[str, Any]]:
    """By its name: what each command takes and answers, and whether it needs a task."""
    return {
        name: {
            "arguments": kind.arguments_type,
            "data": kind.response_data_type,
            "task": kind.task_need.value,
        }
        for name, kind in COMMANDS.items()
    }


def websocket_schema() -> dict[str, Any]:
    return build_wire_schema()


# Tools and modes -----------------------------------------------------------------------------


def tools() -> dict[str, dict[str, Any]]:
    """What models may call: other names, group, XML tags and native schema of each tool."""
    return {
        tool.name: {
            "aliases": sorted(tool.aliases),
            "group": tool.group.value,
            "xml tags": sorted(tool.xml_tags),
            "xml usage": tool.xml_usage,
            "description": tool.spec.description,
            "parameters": tool.spec.parameters,
            "strict": tool.spec.strict,
        }
        for tool in build_default_tools()
    }


def built_in_modes() -> dict[str, dict[str, Any]]:
    return {
        mode.slug: {
            "name": mode.name,
            "groups": [
                {"group": grant.group.value, "fileRegex": grant.file_regex} for grant in mode.grants
            ],
        }
        for mode in BUILT_IN_MODES
    }


# Command line --------------------------------------------------------------------------------

EXIT_CODES = {
    "done": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "wrong usage": ExitCode.USAGE,
    "a person was needed": ExitCode.NEEDS_USER,
    "limit of turns or tool calls": ExitCode.TURN_LIMIT,
    "limit of money, tokens or time": ExitCode.BUDGET_LIMIT,
    "provider down": ExitCode.TRY_AGAIN,
    "configuration": ExitCode.CONFIGURATION,
    "SIGHUP": ExitCode.HANGUP,
    "SIGINT": ExitCode.INTERRUPTED,
    "broken pipe": ExitCode.BROKEN_PIPE,
    "SIGTERM": ExitCode.TERMINATED,
}
ALL_EXIT_CODES = sorted(int(code) for code in ExitCode)
PROVIDER_PROBLEMS = sorted(error.value for error in ProviderFailureKind)


def exit_code_of_failure(code: str) -> int:
    """Of a run whose task failed with this code."""
    return int(outcome_to_exit_code(Failed(code, "")))


def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Of `joey` itself and of each command, by how a command line begins."""
    return {"joey": build_run_parser()} | {
        f"joey {name}": make() for name, make in COMMAND_PARSERS.items()
    }


# Stored tasks --------------------------------------------------------------------------------


def journal_lines(data: bytes) -> list[bytes]:
    """A journal, decoded and encoded again."""
    records, size = decode_journal(data)
    assert size == len(data)
    return [encode_record(record) for record in records]


class StoredTask:
    """A task as it is loaded from its folder."""

    def __init__(self, home: Path, task_id: str) -> None:
        self._log, records = JsonFileStore(home).open(task_id)
        self._recorder = Recorder(self._log, records)

    @property
    def rows(self) -> Any:
        return msgspec.to_builtins(list(self._recorder.ui_history.rows))

    @property
    def messages(self) -> Any:
        return msgspec.to_builtins(list(self._recorder.api_history.iter_stored_messages()))

    @property
    def visible_messages(self) -> Any:
        return msgspec.to_builtins(list(self._recorder.api_history.visible_messages))

    @property
    def metadata(self) -> Any:
        return msgspec.to_builtins(self._recorder.build_metadata())

    def save(self) -> None:
        """Write the snapshot files."""
        asyncio.run(self._recorder.write_snapshots())

    def close(self) -> None:
        self._log.close()
