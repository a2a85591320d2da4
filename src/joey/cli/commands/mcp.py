"""`joey mcp`: list, add, remove, test, log in to and log out of MCP servers."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from joey.app.trust import ServerAdmin, ServerInfo, ServerNotFoundError, open_server_admin
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.launch import workspace_of
from joey.cli.output import table, write_out
from joey.core.mcp import McpServer
from joey.presentation.text import columns, one_line, sanitise

_SOURCE_LABELS = {"project": "project", "global": "yours"}


def run_mcp(arguments: Namespace) -> ExitCode:
    try:
        return _run(open_server_admin(workspace_of(arguments)), arguments)
    except ServerNotFoundError as error:
        raise UsageError(str(error)) from error


def _run(admin: ServerAdmin, arguments: Namespace) -> ExitCode:
    match arguments.action:
        case "list":
            _list(admin, as_json=arguments.json)
        case "add":
            _add(admin, arguments)
        case "remove":
            path = admin.remove(arguments.name, project=arguments.project)
            print(f"removed {sanitise(arguments.name)} from {path}")
        case "test":
            return asyncio.run(_test(admin, arguments.name, as_json=arguments.json))
        case "login":
            _log_in(admin, arguments.name)
        case "logout":
            done = admin.forget_login(arguments.name)
            print("the login is forgotten" if done else "there was no login")
    return ExitCode.DONE


def _list(admin: ServerAdmin, *, as_json: bool) -> None:
    servers = admin.listed()
    if as_json:
        _write(msgspec.json.format(msgspec.json.encode(servers), indent=2).decode())
    elif servers:
        _write("\n".join(_table(servers, columns(sys.stdout))))
    else:
        print("there are no MCP servers; joey mcp add --help says how to add one", file=sys.stderr)
    for problem in admin.problems:
        print(f"joey: {sanitise(problem)}", file=sys.stderr)


def _table(servers: Sequence[ServerInfo], width: int | None) -> Iterator[str]:
    """Columns for a person; for a pipe, values with tabs between them and no heading."""
    rows = [
        [
            one_line(server.name, 40),
            _SOURCE_LABELS[server.source],
            server.transport,
            f"{server.state}, logged in" if server.logged_in else server.state,
        ]
        for server in servers
    ]
    reached = [one_line(server.reached_by, 1000) for server in servers]
    if width is None:
        yield from ("\t".join([*row, how]) for row, how in zip(rows, reached, strict=True))
        return
    whole = [[*row, how] for row, how in zip(rows, reached, strict=True)]
    yield from table([["name", "from", "kind", "state", "reached by"], *whole], width, firm={0})


def _add(admin: ServerAdmin, arguments: Namespace) -> None:
    if bool(arguments.command_line) == bool(arguments.url):
        raise UsageError("name a program behind --, or an address with --url")
    entry: dict[str, Any]
    if arguments.url:
        kind = "sse" if arguments.transport == "sse" else "streamable-http"
        entry = {"type": kind, "url": arguments.url}
        if arguments.header:
            entry["headers"] = dict(_pair(header, ":") for header in arguments.header)
    else:
        command, *args = arguments.command_line
        entry = {"command": command, "args": args}
        if arguments.env:
            entry["env"] = dict(_pair(pair, "=") for pair in arguments.env)
        if arguments.cwd:
            entry["cwd"] = arguments.cwd
    if arguments.timeout is not None:
        entry["timeout"] = arguments.timeout
    path = admin.add(arguments.name, entry, project=arguments.project)
    print(f"added {sanitise(arguments.name)} to {path}")
    if arguments.project:
        print("servers of a project run once it is trusted: joey trust")


def _pair(text: str, between: str) -> tuple[str, str]:
    name, found, value = text.partition(between)
    if not found or not name.strip():
        raise UsageError(f"{text!r} is not NAME{between}VALUE")
    return name.strip(), value.strip() if between == ":" else value


async def _test(admin: ServerAdmin, name: str, *, as_json: bool) -> ExitCode:
    server = await admin.test(name)
    works = server.status == "connected"
    if as_json:
        _write(msgspec.json.format(msgspec.json.encode(server), indent=2).decode())
    else:
        _write("\n".join(_findings(server)))
    return ExitCode.DONE if works else ExitCode.FAILED


def _findings(server: McpServer) -> Iterator[str]:
    if server.status != "connected":
        why = f": {sanitise(server.error)}" if server.error else ""
        yield f"{sanitise(server.name)} is {server.status}{why}"
        return
    yield f"{sanitise(server.name)} works: {len(server.tools)} tools"
    for tool in server.tools:
        allowed = " (always allowed)" if tool.always_allowed else ""
        noted = allowed if tool.enabled else " (disabled)"
        yield f"  {sanitise(tool.name)}{noted}  {one_line(tool.description, 80)}".rstrip()
    if server.resources:
        yield f"{len(server.resources)} resources"
        yield from (f"  {one_line(item.uri, 100)}" for item in server.resources[:20])


def _log_in(admin: ServerAdmin, name: str) -> None:
    shown: list[str] = []

    def show(url: str) -> None:
        shown.append(url)
        print(f"Open this address in your browser to log in:\n\n  {sanitise(url)}\n", flush=True)

    tools = asyncio.run(admin.login(name, show))
    done = "logged in at" if shown else "no login is needed at"
    print(f"{done} {sanitise(name)}; it offers {tools} tools")


def _write(text: str) -> None:
    write_out(f"{text}\n".encode("utf-8", "replace"))
