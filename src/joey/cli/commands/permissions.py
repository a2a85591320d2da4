"""`joey permissions`: the decision of the rules about a command or a file, with the reason."""

from __future__ import annotations

import asyncio
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import IO, Any

import msgspec
from msgspec import structs

from joey.app.permission_explanations import PermissionExplainer, PermissionExplanation
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.headless.refusal_advice import find_missing_rules
from joey.cli.output import colour, encode_json, write_stdout
from joey.cli.task_launch import build_permission_flags
from joey.cli.task_lookup import resolve_workspace_argument
from joey.core.permissions.commands import quote_words
from joey.core.permissions.policy import BoundarySetting
from joey.core.tool_calls import describe_confinement
from joey.presentation.text import get_terminal_width, sanitize, to_one_line, wrap

MAX_QUESTION_LINE_BYTES = 16 * 1024 * 1024
"""More is answered with an error."""
_DECISION_ANSI_COLOURS = {"allow": "32", "ask": "33", "deny": "31"}
_QUESTION_KEYS = ("command", "read", "write")
_OUTSIDE_WORKSPACE_SETTINGS = (BoundarySetting.READ_OUTSIDE, BoundarySetting.WRITE_OUTSIDE)


def run_permissions(arguments: Namespace) -> ExitCode:
    flags = build_permission_flags(arguments)
    if arguments.action == "report":
        from joey.cli.commands.permission_audit_report import run_report

        return run_report(arguments, flags)
    asked = [bool(arguments.command_line), arguments.stdin]
    asked += [arguments.read is not None, arguments.write is not None]
    if sum(asked) != 1:
        raise UsageError(
            "name one thing to explain: a command after --, or --read, --write, --stdin"
            " (see joey permissions --help)"
        )
    explainer = PermissionExplainer(resolve_workspace_argument(arguments), flags)
    if arguments.stdin:
        asyncio.run(_answer_json_questions(explainer, sys.stdin.buffer))
        return ExitCode.DONE
    asyncio.run(_print_explanation(explainer, arguments))
    return ExitCode.DONE


async def _print_explanation(explainer: PermissionExplainer, arguments: Namespace) -> None:
    if arguments.read is not None:
        explained = await explainer.explain_read(arguments.read)
    elif arguments.write is not None:
        explained = await explainer.explain_write(arguments.write)
    else:
        explained = await explainer.explain_command(" ".join(arguments.command_line))
    if arguments.json:
        write_stdout(encode_json(explained))
        return
    parts = [await explainer.explain_command(quote_words(argv)) for argv in explained.commands]
    width = get_terminal_width(sys.stdout)
    for line in _describe_explanation(explained, parts if len(parts) > 1 else []):
        print(wrap(line, width))
    if rules := await _find_missing_rules(explainer, explained, arguments):
        flags = " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)
        print(wrap(f"  allowed with {sanitize(flags)}", width))


async def _find_missing_rules(
    explainer: PermissionExplainer, explained: PermissionExplanation, arguments: Namespace
) -> list[str]:
    """Find the rules with which a command would run without approval."""
    if not explained.commands or explained.decision != "ask":
        return []
    line = " ".join(arguments.command_line)
    flags = build_permission_flags(arguments)
    for sandbox in dict.fromkeys((explained.sandbox or None, None)):
        rules = find_missing_rules(line, explainer.settings, sandbox) or []
        wider = PermissionExplainer(
            resolve_workspace_argument(arguments),
            structs.replace(flags, allow=(*flags.allow, *rules)),
        )
        if (await wider.explain_command(line)).decision == "allow":
            return rules
    return []


def _describe_explanation(
    explained: PermissionExplanation, parts: list[PermissionExplanation]
) -> Iterator[str]:
    """Format an explanation as lines for a user."""
    said = colour(explained.decision, _DECISION_ANSI_COLOURS[explained.decision])
    yield f"{said}: {sanitize(explained.reason)}"
    if explained.protected and explained.decision == "ask":
        yield "  it is protected: alwaysAllowWriteProtected must be on too"
    if any(each.setting in _OUTSIDE_WORKSPACE_SETTINGS for each in explained.reasons):
        yield "  allowed with --add-dir and its directory"
    if explained.sandbox and explained.decision != "deny":
        yield f"  {describe_confinement(explained.sandbox)}"
    rows = [(part.decision, to_one_line(quote_words(part.commands[0]), 60), part) for part in parts]
    size = max((len(line) for _, line, _ in rows), default=0)
    for decision, line, part in rows:
        why = f"by {part.rule}" if part.decision == "allow" else part.reason
        said = colour(decision, _DECISION_ANSI_COLOURS[decision]) + " " * (6 - len(decision))
        yield f"  {said}{line:{size}}  {to_one_line(why, 120)}"


async def _answer_json_questions(explainer: PermissionExplainer, questions: IO[bytes]) -> None:
    for line in _iter_lines(questions):
        answer = await _answer_json_question(explainer, line)
        write_stdout(msgspec.json.encode(answer) + b"\n")


def _iter_lines(source: IO[bytes]) -> Iterator[bytes]:
    """Iterate over non-blank lines; one that is too long is truncated, which makes it invalid
    JSON."""
    while line := source.readline(MAX_QUESTION_LINE_BYTES):
        cut = line
        while not cut.endswith(b"\n") and (cut := source.readline(MAX_QUESTION_LINE_BYTES)):
            line = line[:1000]
        if line.strip():
            yield line


async def _answer_json_question(explainer: PermissionExplainer, line: bytes) -> dict[str, Any]:
    try:
        question = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return {"id": None, "error": f"not a line of JSON: {error}"}
    if not isinstance(question, dict):
        return {"id": None, "error": "not an object"}
    id_ = question.get("id")
    asked = [(name, question[name]) for name in _QUESTION_KEYS if name in question]
    match asked:
        case [("command", str(text))]:
            explained = await explainer.explain_command(text)
        case [("read", str(text))]:
            explained = await explainer.explain_read(text)
        case [("write", str(text))]:
            explained = await explainer.explain_write(text)
        case _:
            return {"id": id_, "error": "it needs one text: command, read or write"}
    return {"id": id_, **msgspec.to_builtins(explained)}
