"""A model with a small window that counts the bytes of what it is sent, as services do tokens."""

from __future__ import annotations

from collections.abc import Iterable

from joey.core.context.condense import APPENDED_INTRODUCTION, CONDENSE_SYSTEM_PROMPT
from joey.core.events import ContextCondensed, ContextTruncated
from joey.core.messages import Message, TextBlock, get_blocks
from joey.core.models import ModelInfo, ModelRequest
from joey.core.settings import Profile
from joey.engine.task import Task
from joey.providers.anthropic import AnthropicRequestBuilder
from joey.testing.script import Turn, call, fail, say, usage
from joey.testing.scripted_provider import ScriptedProvider, ScriptedTurn
from tests.harness.engine.engine_harness import list_durable_events
from tests.service_rules import check_request

WINDOW_TOKENS = 32_000
MAX_OUTPUT_TOKENS = 4_000


class SmallWindowModel(ScriptedProvider):
    """Plays its turns; summaries apart. What a service would refuse fails the test."""

    def __init__(
        self,
        turns: Iterable[ScriptedTurn],
        *,
        window: int = WINDOW_TOKENS,
        advertised_window: int | None = None,
        bytes_per_token: float = 4.0,
        summaries: Iterable[ScriptedTurn] = (),
        states_usage: bool = True,
    ) -> None:
        """`advertised_window` is the window that the catalogue would name, when that is another
        one."""
        model = ModelInfo(
            id="narrow",
            context_window=advertised_window or window,
            max_output_tokens=MAX_OUTPUT_TOKENS,
        )
        super().__init__((), model)
        self.remaining_turns = list(turns)
        self.window = window
        self.request_tokens: list[int] = []
        self.refused_tokens: list[int] = []
        self.summary_requests: list[ModelRequest] = []
        self._bytes_per_token = bytes_per_token
        self._summaries = list(summaries)
        self._states_usage = states_usage

    @property
    def regular_requests(self) -> list[ModelRequest]:
        """The requests that were not for summaries."""
        return [request for request in self.requests if not is_summary_request(request)]

    def _take_next_turn(self, request: ModelRequest) -> ScriptedTurn:
        check_request(request)
        tokens = self.count_tokens(request)
        if tokens > self.window:
            self.refused_tokens.append(tokens)
            return Turn(fail(400, f"prompt is too long: {tokens} tokens > {self.window} maximum"))
        self.request_tokens.append(tokens)
        turn = (
            self._next_summary(request)
            if is_summary_request(request)
            else self.remaining_turns.pop(0)
        )
        if not isinstance(turn, Turn) or not self._states_usage:
            return turn
        return Turn(*turn.steps, usage(input=tokens, output=20))

    def _next_summary(self, request: ModelRequest) -> ScriptedTurn:
        self.summary_requests.append(request)
        if self._summaries:
            return self._summaries.pop(0)
        return Turn(say(f"Summary number {len(self.summary_requests)}."))

    def count_tokens(self, request: ModelRequest) -> int:
        wire = AnthropicRequestBuilder(Profile(model="narrow"), self.model, legacy=False)
        return int(len(b"".join(wire.build_body(request))) / self._bytes_per_token)


def is_summary_request(request: ModelRequest) -> bool:
    is_transcript = request.system_prompt == CONDENSE_SYSTEM_PROMPT
    return is_transcript or APPENDED_INTRODUCTION in join_text(request.messages[-1])


def make_read_turn(number: int) -> Turn:
    return Turn(call("read_file", {"path": f"file{number}.txt"}))


def join_text(message: Message) -> str:
    return "\n".join(b.text for b in get_blocks(message) if isinstance(b, TextBlock))


def list_condense_events(task: Task) -> list[ContextCondensed]:
    return [event for event in list_durable_events(task) if isinstance(event, ContextCondensed)]


def list_truncation_events(task: Task) -> list[ContextTruncated]:
    return [event for event in list_durable_events(task) if isinstance(event, ContextTruncated)]
