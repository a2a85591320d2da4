"""An editor as the protocol's own package makes one, connected to the real `joey acp`."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent
from acp.exceptions import RequestError
from acp.helpers import text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
    WriteTextFileResponse,
)

from joey.testing.script import Turn, call, usage
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import LIMIT, Joey

Json = dict[str, Any]
Chooser = Callable[[Json], Awaitable[str | None]]


async def allow(call: Json) -> str | None:
    return "allow"


class Editor:
    """What the agent may ask of an editor, and all that it has told."""

    def __init__(self, choose: Chooser = allow) -> None:
        self.choose = choose
        """The option that the user takes; None: they cancelled."""
        self.frames: list[tuple[str, Json]] = []
        self.asked: list[Json] = []
        self.buffers: dict[str, str] = {}
        """Text that is not saved."""
        self.read: list[str] = []
        self.written: dict[str, str] = {}
        self._changed = asyncio.Condition()

    # What the library calls

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        pass  # the frames tell it

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> RequestPermissionResponse:
        call = {
            "session": session_id,
            "call": tool_call.model_dump(mode="json", by_alias=True, exclude_none=True),
            "options": [(one.option_id, one.kind, one.name) for one in options],
        }
        self.asked.append(call)
        await self._notify_changed()
        chosen = await self.choose(call)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=chosen)
        )

    async def read_text_file(self, path: str, **_: Any) -> ReadTextFileResponse:
        self.read.append(path)
        if path in self.buffers:
            return ReadTextFileResponse(content=self.buffers[path])
        try:
            return ReadTextFileResponse(content=_saved(Path(path)))
        except OSError as error:
            raise RequestError.resource_not_found(path) from error

    async def write_text_file(self, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        self.written[path] = content
        self.buffers.pop(path, None)
        _save(Path(path), content)
        return WriteTextFileResponse()

    # What tests look at

    def observe(self, event: StreamEvent) -> None:
        sender = "agent" if event.direction is StreamDirection.INCOMING else "client"
        self.frames.append((sender, event.message))
        asyncio.get_running_loop().create_task(self._notify_changed())

    async def _notify_changed(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, is_so: Callable[[], Any]) -> Any:
        async with asyncio.timeout(LIMIT), self._changed:
            await self._changed.wait_for(lambda: bool(is_so()))
            return is_so()

    def updates(self, session_id: str, *kinds: str) -> list[Json]:
        updates = (frame["params"] for _, frame in self.frames if _is_update(frame))
        return [
            each["update"]
            for each in updates
            if each["sessionId"] == session_id
            and (not kinds or each["update"]["sessionUpdate"] in kinds)
        ]

    def text(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        chunks = self.updates(session_id, kind)
        return "".join(chunk["content"].get("text", "") for chunk in chunks)

    def calls(self, session_id: str) -> dict[str, Json]:
        """Each call of a tool as it stands after all that was told of it."""
        return calls_of(self.updates(session_id, "tool_call", "tool_call_update"))


def _saved(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def calls_of(updates: Sequence[Json]) -> dict[str, Json]:
    calls: dict[str, Json] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            id = update["toolCallId"]
            calls[id] = {**calls.get(id, {}), **update, "sessionUpdate": "tool_call"}
    return calls


def _is_update(frame: Json) -> bool:
    return frame.get("method") == "session/update"


class Connected:
    def __init__(self, editor: Editor, agent: ClientSideConnection, process: Process) -> None:
        self.editor = editor
        self.agent = agent
        self.process = process
        self.complaints = ""
        """What it wrote on stderr, once it is over."""

    async def new(self, directory: Path, servers: Sequence[Any] = ()) -> str:
        session = await self.agent.new_session(cwd=str(directory), mcp_servers=list(servers))
        return session.session_id

    async def prompt(self, session_id: str, *blocks: Any) -> str:
        said = [text_block(block) if isinstance(block, str) else block for block in blocks]
        async with asyncio.timeout(LIMIT):
            return (await self.agent.prompt(session_id=session_id, prompt=said)).stop_reason


@asynccontextmanager
async def connected(
    joey: Joey,
    url: str | None,
    schema: ProtocolSchema | None,
    editor: Editor | None = None,
    *,
    files: bool = False,
    terminals: bool = False,
    arguments: Sequence[str] = (),
    complaint: str = "",
) -> AsyncIterator[Connected]:
    """The real program, greeted; its frames are checked when it is over."""
    editor = editor or Editor()
    env = joey.env if url is None else {**joey.env, **model_at(url)}
    process = await joey.start("acp", *arguments, stdin=PIPE, env=env)
    assert process.stdin and process.stdout and process.stderr
    complaints = asyncio.ensure_future(process.stderr.read())
    agent = ClientSideConnection(
        editor,  # type: ignore[arg-type]
        process.stdin,
        process.stdout,
        use_unstable_protocol=True,
        observers=[editor.observe],
    )
    try:
        can = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=files, write_text_file=files),
            terminal=terminals,
            field_meta={"terminal_output": True} if terminals else None,
        )
        async with asyncio.timeout(LIMIT):
            await agent.initialize(protocol_version=1, client_capabilities=can)
        here = Connected(editor, agent, process)
        yield here
        process.stdin.close()
        async with asyncio.timeout(LIMIT):
            await process.wait()
            here.complaints = (await complaints).decode()
        ended = (process.returncode, here.complaints)
        assert ended == (0, complaint), ended
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        with suppress(ConnectionError):  # an answer may have come too late
            await agent.close()
        complaints.cancel()
    if schema is not None:
        schema.check(editor.frames)


def model_at(url: str) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": url}


TODOS = "[x] look\n[-] write\n[ ] tell"


def done(result: str = "All is well.") -> Turn:
    return Turn(call("attempt_completion", {"result": result}), usage(input=900, output=40))


def tools(body: dict[str, object]) -> set[str]:
    listed = body["tools"]
    assert isinstance(listed, list)
    return {tool["name"] for tool in listed}


def summarize_updates(updates: list[dict[str, Any]]) -> dict[str, Any]:
    """What updates tell, however they were cut into pieces."""
    spoken: list[list[str]] = []
    for update in updates:
        kind = update["sessionUpdate"]
        if kind == "user_message_chunk":
            continue  # live, the editor knows them
        if kind.endswith("_chunk"):
            if not spoken or spoken[-1][0] != kind:
                spoken.append([kind, ""])
            spoken[-1][1] += update["content"].get("text", "")
        elif kind == "tool_call":
            spoken.append([kind, update["toolCallId"]])
    kept = ("plan", "current_mode_update")
    return {
        "spoken": spoken,
        "calls": calls_of(updates),
        "others": [update for update in updates if update["sessionUpdate"] in kept],
    }
