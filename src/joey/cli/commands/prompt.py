"""`joey prompt`: the system prompt and the tools that a new task would be sent."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import msgspec

from joey.app.model_choice import ModelFlags
from joey.app.prompt_preview import PromptPreview, preview_prompt
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import emit, format_columns
from joey.cli.task_lookup import resolve_workspace_argument
from joey.core.models import ToolProtocol, ToolSpec
from joey.core.prompts.system import split_sections
from joey.errors import ConfigError, NoModelError
from joey.presentation.text import sanitize, to_one_line

_CHARACTERS_PER_TOKEN = 4
_MAX_TITLE_CHARS = 40
"""Some sections begin without one."""


def run_prompt(arguments: Namespace) -> ExitCode:
    try:
        preview = _build_preview(arguments)
    except NoModelError as error:
        from joey.cli.local_model_offer import choose_served_model

        arguments.model = choose_served_model(arguments, error)
        preview = _build_preview(arguments)
    except ConfigError as error:
        if error.field in ("mode", "provider", "profile"):
            raise UsageError(str(error)) from error
        raise
    lines = _iter_token_rows(preview) if arguments.tokens else _iter_text_lines(preview)
    emit(_to_json_fields(preview), lines, arguments.json)
    return ExitCode.DONE


def _build_preview(arguments: Namespace) -> PromptPreview:
    model = ModelFlags(
        provider=arguments.provider,
        model=arguments.model,
        base_url=arguments.base_url,
        profile=arguments.profile,
    )
    protocol = ToolProtocol(arguments.protocol) if arguments.protocol else None
    workspace = resolve_workspace_argument(arguments)
    return asyncio.run(
        preview_prompt(workspace, model=model, mode=arguments.mode, protocol=protocol)
    )


def _iter_text_lines(preview: PromptPreview) -> Iterator[str]:
    yield sanitize(preview.system)
    if preview.tools:
        yield from ("", "====", "", "TOOLS", "")
        yield from (_encode(_to_json_tool(tool)) for tool in preview.tools)


def _iter_token_rows(preview: PromptPreview) -> Iterator[str]:
    sizes = _list_sizes(preview)
    rows = [[each["kind"], each["name"], str(each["tokens"])] for each in sizes]
    total = sum(each["tokens"] for each in sizes)
    yield from format_columns(["part", "name", "tokens"], [*rows, ["total", "", str(total)]], {0})


def _to_json_fields(preview: PromptPreview) -> dict[str, Any]:
    sizes = _list_sizes(preview)
    return {
        "mode": preview.mode,
        "protocol": preview.protocol,
        "model": preview.model or None,
        "contextWindow": preview.context_window or None,
        "system": preview.system,
        "tools": [_to_json_tool(tool) for tool in preview.tools],
        "sizes": sizes,
        "tokens": sum(each["tokens"] for each in sizes),
    }


def _list_sizes(preview: PromptPreview) -> list[dict[str, Any]]:
    """List the estimated tokens of each section and tool."""
    sections = [
        ("section", to_one_line(title, _MAX_TITLE_CHARS), text)
        for title, text in split_sections(preview.system)
    ]
    tools = [("tool", tool.name, _encode(_to_json_tool(tool))) for tool in preview.tools]
    return [
        {"kind": kind, "name": name, "tokens": -(-len(text) // _CHARACTERS_PER_TOKEN)}
        for kind, name, text in (*sections, *tools)
    ]


def _to_json_tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
