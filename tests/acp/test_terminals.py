"""Commands in the editor's own terminals, which show them without running them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from acp.exceptions import RequestError
from acp.schema import CreateTerminalResponse, ReleaseTerminalResponse

from joey.acp.output_terminals import MAX_UNREAD_OUTPUT_BYTES, TerminalView
from joey.acp.terminal_viewer import DISCONNECTED_EXIT_CODE, print_command_output
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.acp.editor import Connected, Editor, connected
from tests.acp.protocol_schema import ProtocolSchema
from tests.front.binary import LIMIT, Joey

SLOW = "echo begun; sleep 600; echo never"


class TerminalEditor(Editor):
    """Starts what it is asked to, as editors do, and keeps what is printed."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Process] = []
        self.lines: list[list[str]] = []
        self.printed: dict[str, bytes] = {}
        self.released: list[str] = []

    async def create_terminal(
        self, command: str, args: list[str], cwd: str, **_: Any
    ) -> CreateTerminalResponse:
        process = await asyncio.create_subprocess_exec(
            command, *args, cwd=cwd, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        )
        self.started.append(process)
        self.lines.append([command, *args])
        id = f"terminal-{len(self.started)}"
        self.printed[id] = b""
        asyncio.get_running_loop().create_task(self._collect(id, process))
        return CreateTerminalResponse(terminal_id=id)

    async def release_terminal(self, terminal_id: str, **_: Any) -> ReleaseTerminalResponse:
        self.released.append(terminal_id)
        number = terminal_id.rpartition("-")[2]
        if number.isdigit() and (viewer := self.started[int(number) - 1]).returncode is None:
            with suppress(ProcessLookupError):
                os.kill(viewer.pid, signal.SIGKILL)  # its own way to kill asks how it has ended
        await self._notify_changed()
        return ReleaseTerminalResponse()

    async def _collect(self, id: str, process: Process) -> None:
        assert process.stdout is not None
        while piece := await process.stdout.read(1024):
            self.printed[id] += piece
            await self._notify_changed()
        await process.wait()
        await self._notify_changed()


def running(command: str) -> Turn:
    return Turn(call("execute_command", {"command": command}))


def done() -> Turn:
    return Turn(call("attempt_completion", {"result": "Done."}))


@asynccontextmanager
async def editing(
    joey: Joey, rules: ProtocolSchema | None, editor: Editor, *turns: Turn
) -> AsyncIterator[tuple[Connected, str]]:
    async with (
        ModelServer([*turns]) as server,
        connected(joey, server.url, rules, editor, terminals=True) as here,
    ):
        yield here, await here.new(joey.workspace)


def contents(editor: Editor, session: str) -> list[list[str]]:
    """The kinds of content that each call ends up with."""
    calls = editor.calls(session).values()
    return [[part["type"] for part in one.get("content", ())] for one in calls]


@pytest.mark.requirement("acp:terminals")
async def test_a_command_is_seen_in_a_terminal_of_the_editor(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = TerminalEditor()
    script = "printf 'one\\ntwo\\n'; printf '\\033]52;c;c3RvbGVu\\007'; exit 3"
    async with editing(joey, schema, editor, running(script), done()) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
        await editor.until(lambda: editor.released == ["terminal-1"])
    (viewer,) = editor.started
    assert (editor.printed["terminal-1"], viewer.returncode) == (b"one\ntwo\n", 3)
    assert editor.lines[0][-1] == script  # what people see it is called
    (shown_call,) = editor.calls(session).values()
    assert [part["type"] for part in shown_call["content"]] == ["content", "terminal", "content"]
    assert shown_call["content"][1]["terminalId"] == "terminal-1"
    assert shown_call["content"][2]["content"]["text"] == "exit 3"
    assert not list(Path(editor.lines[0][0]).parent.glob("*"))


async def test_it_is_seen_while_it_runs_and_who_closes_the_terminal_ends_it(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = TerminalEditor()
    async with editing(joey, schema, editor, running(SLOW), done()) as (here, session):
        turn = asyncio.ensure_future(here.prompt(session, "go"))
        await editor.until(lambda: editor.printed.get("terminal-1") == b"begun\n")
        editor.started[0].kill()
        assert await turn == "end_turn"
        await editor.until(lambda: editor.released == ["terminal-1"])
    (shown_call,) = editor.calls(session).values()
    assert shown_call["content"][-1]["content"]["text"] == "ended by SIGTERM"
    assert shown_call["status"] == "failed"


async def test_cancelling_the_turn_ends_what_the_terminal_shows(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = TerminalEditor()
    async with editing(joey, schema, editor, running(SLOW), done()) as (here, session):
        turn = asyncio.ensure_future(here.prompt(session, "go"))
        await editor.until(lambda: editor.printed.get("terminal-1") == b"begun\n")
        await here.agent.cancel(session_id=session)
        assert await turn == "cancelled"
        await editor.until(lambda: editor.released == ["terminal-1"])
        await editor.until(lambda: editor.started[0].returncode is not None)


async def test_every_command_has_a_terminal_of_its_own(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = TerminalEditor()
    turns = (running("echo first"), running("true"), running("echo second"), done())
    async with editing(joey, schema, editor, *turns) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
        await editor.until(lambda: editor.released == ["terminal-1", "terminal-2"])
    assert editor.printed == {"terminal-1": b"first\n", "terminal-2": b"second\n"}
    seen = ["content", "terminal"]
    assert contents(editor, session) == [seen, ["content"], seen]


@pytest.mark.requirement("acp:terminals")
async def test_the_command_is_confined_whoever_shows_it(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = TerminalEditor()
    outside = joey.workspace.parent / "outside.txt"
    command = f"echo x > {outside}; echo tried"
    async with editing(joey, schema, editor, running(command), done()) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
        (asked,) = editor.asked
        confined = "runs confined" in str(asked["call"]["content"])
    assert outside.exists() is not confined


class Refusing(TerminalEditor):
    async def create_terminal(
        self, command: str, args: list[str], cwd: str, **_: Any
    ) -> CreateTerminalResponse:
        self.lines.append([command])
        raise RequestError.internal_error({"details": "no room"})


class Elsewhere(TerminalEditor):
    """Its terminals are on another machine, where there is no such program."""

    async def create_terminal(
        self, command: str, args: list[str], cwd: str, **_: Any
    ) -> CreateTerminalResponse:
        return CreateTerminalResponse(terminal_id="far")


async def test_without_a_terminal_the_output_comes_as_text(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Refusing()
    turns = (running("echo first"), running("echo second"), done())
    async with (
        ModelServer([*turns]) as server,
        connected(
            joey,
            server.url,
            schema,
            editor,
            terminals=True,
            complaint="joey: the editor shows no terminal, so output comes as text:"
            " Internal error\n",
        ) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
    assert len(editor.lines) == 1  # it is not asked again
    texts = [one["content"][1]["content"]["text"] for one in editor.calls(session).values()]
    assert texts == ["```\nfirst\n```", "```\nsecond\n```"]


async def test_a_terminal_that_shows_nothing_is_not_relied_on(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Elsewhere()
    turns = (running("echo seen"), running("echo here"), done())
    async with (
        ModelServer([*turns]) as server,
        connected(
            joey,
            server.url,
            schema,
            editor,
            terminals=True,
            complaint="joey: the editor's terminal shows nothing, so output comes as text\n",
        ) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
        await editor.until(lambda: editor.released == ["far"])  # and is not asked again
    texts = [one["content"][1]["content"]["text"] for one in editor.calls(session).values()]
    assert texts == ["```\nseen\n```", "```\nhere\n```"]


async def test_it_ends_as_the_command_did_however_soon_it_is_let_go(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = TerminalEditor()
    turns = [running(f"echo {code}; exit {code}") for code in range(1, 11)]
    async with editing(joey, schema, editor, *turns, done()) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
        await editor.until(lambda: len(editor.released) == len(turns))
        await editor.until(lambda: all(one.returncode is not None for one in editor.started))
    assert [one.returncode for one in editor.started] == [*range(1, 11)]


@pytest.mark.parametrize("sandbox", ["off", "auto"])
async def test_it_ends_as_a_shell_would_when_a_signal_ended_the_command(
    joey: Joey, schema: ProtocolSchema | None, sandbox: str
) -> None:
    joey.settings(sandbox=sandbox)
    editor = TerminalEditor()
    turns = (running("echo seen; kill -KILL $$"), done())
    async with editing(joey, schema, editor, *turns) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
        await editor.until(lambda: editor.started[0].returncode is not None)
    (shown_call,) = editor.calls(session).values()
    assert (shown_call["status"], editor.started[0].returncode) == ("failed", 128 + signal.SIGKILL)


class Silent(TerminalEditor):
    """Does not answer before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def create_terminal(
        self, command: str, args: list[str], cwd: str, **rest: Any
    ) -> CreateTerminalResponse:
        self.lines.append([command, *args])
        await self._notify_changed()
        await self.may_answer.wait()
        return CreateTerminalResponse(terminal_id="late")


async def test_who_cancels_is_free_though_the_editor_opens_no_terminal(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    """That joey has waited in vain would be a complaint."""
    editor = Silent()
    async with editing(joey, schema, editor, running(SLOW), done()) as (here, session):
        turn = asyncio.ensure_future(here.prompt(session, "go"))
        await editor.until(lambda: len(editor.lines) == 1)
        await here.agent.cancel(session_id=session)
        assert await turn == "cancelled"
        editor.may_answer.set()
        await editor.until(lambda: editor.released == ["late"])
    assert len(editor.lines) == 1


class Undecided(TerminalEditor):
    """Starts the program, and then says that it could not."""

    async def create_terminal(
        self, command: str, args: list[str], cwd: str, **rest: Any
    ) -> CreateTerminalResponse:
        opened = await super().create_terminal(command, args, cwd, **rest)
        await asyncio.to_thread(_wait_for_visitor, Path(command).with_name("socket"))
        raise RequestError.internal_error({"details": f"{opened.terminal_id} is lost"})


def _wait_for_visitor(path: Path) -> None:
    """Until somebody is connected to a socket."""
    latest = time.monotonic() + LIMIT
    while not any(
        line.endswith(str(path)) and line.split()[5] == "03"
        for line in Path("/proc/net/unix").read_text().splitlines()
    ):
        assert time.monotonic() < latest
        time.sleep(0.01)


async def test_a_viewer_that_came_to_a_refused_terminal_goes_again(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Undecided()
    async with (
        ModelServer([running("echo seen"), done()]) as server,
        connected(
            joey,
            server.url,
            schema,
            editor,
            terminals=True,
            complaint="joey: the editor shows no terminal, so output comes as text:"
            " Internal error\n",
        ) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
        await editor.until(lambda: editor.started[0].returncode is not None)
    (shown_call,) = editor.calls(session).values()
    assert shown_call["content"][1]["content"]["text"] == "```\nseen\n```"


async def test_a_viewer_ends_when_joey_does(joey: Joey, schema: ProtocolSchema | None) -> None:
    editor = TerminalEditor()
    async with ModelServer([running(SLOW), done()]) as server:
        with pytest.raises((AssertionError, RequestError, ConnectionError)):
            async with connected(joey, server.url, schema, editor, terminals=True) as here:
                session = await here.new(joey.workspace)
                turn = asyncio.ensure_future(here.prompt(session, "go"))
                await editor.until(lambda: editor.printed.get("terminal-1") == b"begun\n")
                here.process.kill()
                await turn
    async with asyncio.timeout(LIMIT):
        await editor.started[0].wait()
    assert editor.started[0].returncode == DISCONNECTED_EXIT_CODE


async def test_what_was_left_out_last_is_reported_too() -> None:
    async def closed() -> None:
        raise AssertionError

    view = TerminalView("1", closed)
    view.print_output("a")
    view.print_output("b" * MAX_UNREAD_OUTPUT_BYTES)
    view.end(3)
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    with theirs:
        theirs.shutdown(socket.SHUT_WR)
        await view.serve_viewer(reader, writer)
        writer.close()
        said = theirs.recv(MAX_UNREAD_OUTPUT_BYTES)
    assert said == b"a\n[...%d bytes omitted...]\n\xff\x03" % MAX_UNREAD_OUTPUT_BYTES


class Far(Joey, frozen=True):
    """Keeps temporary files where names are long."""

    place: Path

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "TMPDIR": str(self.place)}


async def test_directories_of_killed_joeys_go_with_the_next_terminal(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    with TemporaryDirectory(prefix="joey-") as name:  # pytest's own is too long for a socket
        place = Path(name)
        dead, quick, alive = (place / f"joey-terminals-{one}" for one in ("dead", "quick", "alive"))
        with _listening(alive):
            for directory in (dead, quick):
                with _listening(directory):
                    pass
            for directory in (dead, alive):
                os.utime(directory, (1, 1))
            editor = TerminalEditor()
            there = Far(joey.home, joey.workspace, place)
            async with editing(there, schema, editor, running("echo a"), done()) as (here, session):
                assert await here.prompt(session, "go") == "end_turn"
        left = sorted(await asyncio.to_thread(lambda: list(place.iterdir())))
        assert left == [alive, quick]  # which may just be beginning


@contextmanager
def _listening(directory: Path) -> Iterator[None]:
    directory.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "socket"))
        server.listen()
        yield


async def test_no_directory_stays_where_there_can_be_no_socket(
    joey: Joey, schema: ProtocolSchema | None, tmp_path: Path
) -> None:
    far = tmp_path / ("long" * 30)
    far.mkdir()
    editor = TerminalEditor()
    async with ModelServer([running("echo seen"), done()]) as server:
        with pytest.raises(AssertionError, match="AF_UNIX path too long"):
            async with connected(
                Far(joey.home, joey.workspace, far), server.url, schema, editor, terminals=True
            ) as here:
                session = await here.new(joey.workspace)
                assert await here.prompt(session, "go") == "end_turn"
    assert list(far.iterdir()) == []


@pytest.mark.parametrize("cut", range(1, 5))
def test_the_end_is_understood_wherever_it_is_cut(
    cut: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    data = b"a\xc3\xa4\xff\x07"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.makefile("rb").readline() == b"12\n"
                connection.sendall(data[:cut])
                connection.sendall(data[cut:])

        thread = threading.Thread(target=serve)
        thread.start()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            assert print_command_output(connection, "12") == 7
        thread.join(LIMIT)
    assert capfd.readouterr().out == "aä"


def test_a_viewer_without_joey_says_so(tmp_path: Path) -> None:
    viewer = Path(sys.modules[print_command_output.__module__].__file__ or "")
    finished = subprocess.run(
        [sys.executable, "-I", "-S", viewer, tmp_path / "none", "1"],
        env={"PATH": os.defpath},
        capture_output=True,
        check=False,
        timeout=LIMIT,
    )
    assert finished.returncode == 1
    assert finished.stderr.decode().startswith("joey shows nothing here any more: ")
