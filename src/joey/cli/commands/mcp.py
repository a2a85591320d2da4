"""`joey mcp`: list, add, remove, test, log in to and log out of MCP servers."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

from joey.app.trust import ServerAdmin, ServerInfo, ServerNotFoundError, open_server_admin
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import emit, format_columns, print_warning
from joey.cli.task_lookup import resolve_workspace_argument
from joey.core.mcp import McpServer, McpStatus
from joey.presentation.text import sanitize, to_one_line

_SOURCE_LABELS = {"project": "project", "global": "yours"}


def run_mcp(arguments: Namespace) -> ExitCode:
    try:
        return _run_action(open_server_admin(resolve_workspace_argument(arguments)), arguments)
    except ServerNotFoundError as error:
        raise UsageError(str(error)) from error


def _run_action(admin: ServerAdmin, arguments: Namespace) -> ExitCode:
    match arguments.action:
        case "list":
            _print_servers(admin, as_json=arguments.json)
        case "add":
            _add_server(admin, arguments)
        case "remove":
            path = admin.remove(arguments.name, project=arguments.project)
            print(f"removed {sanitize(arguments.name)} from {path}")
        case "test":
            from asyncio import run

            server = run(admin.test_server(arguments.name))
            emit(server, _describe_test_result(server), arguments.json)
            works = server.status is McpStatus.CONNECTED
            return ExitCode.DONE if works else ExitCode.FAILED
        case "login":
            _log_in(admin, arguments.name)
        case "logout":
            done = admin.discard_login(arguments.name)
            print("logged out" if done else "there was no login")
    return ExitCode.DONE


def _print_servers(admin: ServerAdmin, *, as_json: bool) -> None:
    servers = admin.list_servers()
    if servers or as_json:
        emit(servers, _format_servers(servers), as_json)
    else:
        print("there are no MCP servers; joey mcp add --help shows how to add one", file=sys.stderr)
    for problem in admin.problems:
        print_warning(problem)


def _format_servers(servers: Sequence[ServerInfo]) -> list[str]:
    rows = [
        [
            to_one_line(server.name, 40),
            _SOURCE_LABELS[server.source],
            server.transport,
            f"{server.state}, logged in" if server.logged_in else server.state,
            to_one_line(server.reached_by, 1000),
        ]
        for server in servers
    ]
    return format_columns(["name", "from", "kind", "state", "reached by"], rows, {0})


def _add_server(admin: ServerAdmin, arguments: Namespace) -> None:
    if bool(arguments.command_line) == bool(arguments.url):
        raise UsageError("name a program after --, or an address with --url")
    entry: dict[str, Any]
    if arguments.url:
        kind = "sse" if arguments.transport == "sse" else "streamable-http"
        entry = {"type": kind, "url": arguments.url}
        if arguments.header:
            entry["headers"] = dict(_parse_pair(header, ":") for header in arguments.header)
    else:
        command, *args = arguments.command_line
        entry = {"command": command, "args": args}
        if arguments.env:
            entry["env"] = dict(_parse_pair(pair, "=") for pair in arguments.env)
        if arguments.cwd:
            entry["cwd"] = arguments.cwd
    if arguments.timeout is not None:
        entry["timeout"] = arguments.timeout
    path = admin.add(arguments.name, entry, project=arguments.project)
    print(f"added {sanitize(arguments.name)} to {path}")
    if arguments.project:
        print("servers of a project run once it is trusted: joey trust")


def _parse_pair(text: str, separator: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise UsageError(f"{text!r} is not NAME{separator}VALUE")
    return name.strip(), value.strip() if separator == ":" else value


def _describe_test_result(server: McpServer) -> Iterator[str]:
    if server.status is not McpStatus.CONNECTED:
        why = f": {sanitize(server.error)}" if server.error else ""
        yield f"{sanitize(server.name)} is {server.status}{why}"
        return
    yield f"{sanitize(server.name)} works: {len(server.tools)} tools"
    for tool in server.tools:
        allowed = " (always allowed)" if tool.always_allowed else ""
        noted = allowed if tool.enabled else " (disabled)"
        yield f"  {sanitize(tool.name)}{noted}  {to_one_line(tool.description, 80)}".rstrip()
    if server.resources:
        yield f"{len(server.resources)} resources"
        yield from (f"  {to_one_line(item.uri, 100)}" for item in server.resources[:20])


def _log_in(admin: ServerAdmin, name: str) -> None:
    shown: list[str] = []

    def show(url: str) -> None:
        shown.append(url)
        print(f"Open this address in your browser to log in:\n\n  {sanitize(url)}\n", flush=True)

    from asyncio import run

    tools = run(admin.log_in(name, show))
    done = "logged in at" if shown else "no login is needed at"
    print(f"{done} {sanitize(name)}; it offers {tools} tools")
