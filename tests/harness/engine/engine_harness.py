"""An engine on real files, a real store and real processes; only the model follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from joey.core.events import AskOpened, Event
from joey.core.history.ui import Row
from joey.core.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from joey.core.models import ToolProtocol
from joey.core.permissions.policy import SandboxStatus
from joey.core.settings import Limits, Settings
from joey.engine.asks import AnswerPolicy
from joey.engine.engine import Engine, StoredTaskState, TaskOptions
from joey.engine.runtime import TaskRuntime
from joey.engine.task import Task
from joey.execution.terminal import LocalTerminal
from joey.ports.model import Provider
from joey.ports.storage import Store
from joey.ports.tool_context import Capabilities
from joey.storage.task_store import JsonFileLog, JsonFileStore
from joey.testing.script import Call, Turn, call
from joey.testing.scripted_provider import ScriptedProvider, ScriptedTurn
from joey.tools.registry import Registry, build_default_tools
from joey.workspace.environment import LocalEnvironment
from joey.workspace.files import LocalFiles
from joey.workspace.search import LocalSearch

TIMEOUT_S = 60
E = TypeVar("E")

ALLOW_ALL = Settings(
    always_allow_write=True,
    always_allow_execute=True,
    always_allow_mode_switch=True,
    allowed_commands=("*",),
)


class TestClock:
    """Real time, but sleeping costs nothing unless a test holds it."""

    __test__ = False

    def __init__(self) -> None:
        self.time = 1_700_000_000_000
        self.slept: list[float] = []
        self.sleep_gate: asyncio.Event | None = None

    def now(self) -> int:
        self.time += 1
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.sleep_gate is not None:
            await self.sleep_gate.wait()


class EngineHarness:
    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "workspace"
        self.root.mkdir()
        self.home = tmp_path / "home"
        self.clock = TestClock()
        self.provider: Provider = ScriptedProvider([])
        self.capabilities = Capabilities()
        self.sandbox: SandboxStatus = "off"
        self.engine = self.new_engine()

    def new_engine(self, store: Store | None = None) -> Engine:
        registry = Registry(build_default_tools())

        def make_runtime(options: TaskOptions, _: StoredTaskState) -> TaskRuntime:
            files = LocalFiles(options.workspace or self.root)
            search = LocalSearch(files)
            return TaskRuntime(
                provider=self.provider,
                tool_registry=registry,
                files=files,
                search=search,
                terminal=LocalTerminal(),
                environment=LocalEnvironment(files, search),
                clock=self.clock,
                settings=options.settings or ALLOW_ALL,
                find_sandbox=lambda: self.sandbox,
                limits=options.limits,
                capabilities=self.capabilities,
            )

        return Engine(store or JsonFileStore(self.home), self.clock, make_runtime)

    def use_script(self, *turns: ScriptedTurn | Callable[..., ScriptedTurn]) -> ScriptedProvider:
        self.provider = scripted = ScriptedProvider(turns)
        return scripted

    async def start(
        self,
        *turns: ScriptedTurn,
        text: str = "do it",
        settings: Settings | None = None,
        policy: AnswerPolicy | None = None,
        limits: Limits | None = None,
        protocol: ToolProtocol | None = None,
    ) -> Task:
        if turns:
            self.use_script(*turns)
        options = TaskOptions(
            workspace=self.root,
            settings=settings,
            policy=policy,
            limits=limits or Limits(),
            protocol=protocol,
        )
        return await self.engine.start(text, options=options)


def done(result: str = "all done") -> Call:
    return call("attempt_completion", {"result": result})


def finish(result: str = "all done") -> Turn:
    return Turn(done(result))


async def wait_for_ask(task: Task) -> AskOpened:
    """The next question of the task."""
    async with asyncio.timeout(TIMEOUT_S):
        with task.subscribe() as subscription:
            while task.pending is None:
                await anext(subscription)
            return task.pending


async def wait_for_event(task: Task, kind: type[E], since: int = 0) -> E:
    """The next event of a kind."""
    async with asyncio.timeout(TIMEOUT_S):
        with task.subscribe(since) as subscription:
            async for item in subscription:
                if isinstance(item.event, kind):
                    return item.event
    raise AssertionError(f"no {kind.__name__} came")


@asynccontextmanager
async def expect_event(task: Task, kind: type[object]) -> AsyncIterator[None]:
    """Leave with an event of a kind, however soon it came: passing ones are not told again."""
    with task.subscribe() as subscription:
        yield
        async with asyncio.timeout(TIMEOUT_S):
            while not isinstance((await anext(subscription)).event, kind):
                pass


@contextmanager
def block_disk_writes(task: Task) -> Iterator[None]:
    """Until the end of this, the files of the task are being written."""
    log = task.recorder.task_log
    assert isinstance(log, JsonFileLog)
    with log._write_lock:
        yield


async def wait_for_ending(task: Task) -> Any:
    async with asyncio.timeout(TIMEOUT_S):
        return await task.wait()


def list_durable_events(task: Task) -> list[Event]:
    return [record.event for record in task.bus.list_records_after(0)]


def list_event_names(task: Task) -> list[str]:
    return [type(event).__name__ for event in list_durable_events(task)]


def find_rows(task: Task, say: str) -> list[Row]:
    return [row for row in task.rows if isinstance(row, Row) and say in (row.say, row.ask)]


def list_tool_results(message: Message) -> list[str]:
    return [str(b.content) for b in message.content if isinstance(b, ToolResultBlock)]


def list_texts(message: Message) -> list[str]:
    return [block.text for block in message.content if isinstance(block, TextBlock)]


def check_history(messages: Sequence[Message]) -> None:
    """What every provider demands: roles alternate, each call has one result right after it."""
    previous: Message | None = None
    for message in messages:
        if previous is not None:
            assert previous.role != message.role
            uses = [b.id for b in previous.content if isinstance(b, ToolUseBlock)]
            got = [b.tool_use_id for b in message.content if isinstance(b, ToolResultBlock)]
            assert got == uses
        previous = message
