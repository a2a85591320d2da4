"""A model that plays another part in each task: which one, its first message says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

from joey.core.events import (
    SubtaskSpawned,
    TaskPaused,
)
from joey.core.messages import Chunk, TextBlock
from joey.core.models import ModelInfo, ModelRequest, Prices
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.engine.task import Task
from joey.ports.model import Provider
from joey.testing.script import Call, Turn, call
from joey.testing.scripted_provider import ScriptedProvider
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    list_durable_events,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)

ALLOW_ALL_WITH_SUBTASKS = Settings(
    always_allow_write=True,
    always_allow_execute=True,
    always_allow_subtasks=True,
    allowed_commands=("*",),
)
PRICED_MODEL = ModelInfo(
    id="scripted", context_window=200_000, prices=Prices(input=1_000_000.0, output=0.0)
)


class ScriptedSubtasks:
    """The turn is chosen by the part and by how many answers the conversation holds already."""

    def __init__(self, parts: Mapping[str, Sequence[Turn]], model: ModelInfo | None = None) -> None:
        self._turns_by_part = parts
        self._default_provider = ScriptedProvider((), model)
        self.requests: list[tuple[str, ModelRequest]] = []

    @property
    def model(self) -> ModelInfo:
        return self._default_provider.model

    @property
    def api_protocol(self) -> str:
        return self._default_provider.api_protocol

    @property
    def address(self) -> str:
        return self._default_provider.address

    @property
    def window_advice(self) -> str:
        return self._default_provider.window_advice

    async def prepare(self) -> None:
        await self._default_provider.prepare()

    def shrink_window(self) -> bool:
        return self._default_provider.shrink_window()

    def doubt_window(self) -> None:
        self._default_provider.doubt_window()

    def learn_window(self, tokens: int) -> None:
        self._default_provider.learn_window(tokens)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        part = self._find_part(request)
        self.requests.append((part, request))
        number = sum(message.role == "assistant" for message in request.messages)
        assert number < len(self._turns_by_part[part]), f"{part!r} has no turn {number + 1}"
        stage = ScriptedProvider([self._turns_by_part[part][number]])
        async for chunk in stage.stream(request):
            yield chunk

    async def close(self) -> None:
        pass

    def _find_part(self, request: ModelRequest) -> str:
        first = request.messages[0].content
        assert not isinstance(first, str)
        block = first[0]
        assert isinstance(block, TextBlock)
        return next(part for part in self._turns_by_part if part in block.text)

    def join_last_request(self, part: str) -> str:
        """All that the model was last told in this part."""
        last = [request for name, request in self.requests if name == part][-1]
        return "\n".join(str(message.content) for message in last.messages)


def delegate(message: str, mode: str = "code", **more: str) -> Call:
    return call("new_task", {"mode": mode, "message": message, **more})


_protocol_check: type[Provider] = ScriptedSubtasks


async def play(
    engine_harness: EngineHarness,
    parts: Mapping[str, Sequence[Turn]],
    *,
    text: str = "the whole",
    settings: Settings = ALLOW_ALL_WITH_SUBTASKS,
    policy: Unattended | None = None,
) -> Task:
    engine_harness.provider = ScriptedSubtasks(parts)
    return await engine_harness.start(text=text, settings=settings, policy=policy)


async def child_of(task: Task, number: int = 0) -> Task:
    """A subtask while it is open."""
    while True:
        await wait_for_event(task, TaskPaused)
        spawned = [
            event for event in list_durable_events(task) if isinstance(event, SubtaskSpawned)
        ]
        if len(spawned) > number:
            child = await task.find_subtask(spawned[number].child_id)
            assert child is not None
            return child


def spawned_by(task: Task) -> list[str]:
    return list(task.recorder.projection.spawned_subtasks)


async def ended(task: Task) -> Completed:
    """The ending of a task whose result a user accepts."""
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    await task.approve()
    ending = await wait_for_ending(task)
    assert isinstance(ending, Completed)
    check_history(task.messages)
    return ending
