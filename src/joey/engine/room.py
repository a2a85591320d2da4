"""How much of the model's window the next request of a task takes, as things stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from joey.core.context.window import CHARACTERS_PER_TOKEN, Window, blocks_tokens, text_tokens
from joey.core.messages import Message, UserBlock
from joey.core.models import ToolProtocol, ToolSpec

if TYPE_CHECKING:
    from joey.engine.task import Task

_LEAST_CHARACTERS = 6_000


def prompt_of(task: Task) -> tuple[str, tuple[ToolSpec, ...]]:
    """What every request of the task begins with in the mode that it is in."""
    protocol = task.recorder.facts.protocol
    tools = task.bench.tool_specs(task.mode) if protocol is ToolProtocol.NATIVE else ()
    system, form = task.bench.system(task.mode, protocol), task.bench.result_check
    return system if form is None else f"{system}\n\n====\n\n{form.instructions}", tools


class Room:
    """A look at one moment; make a new one after the history has changed."""

    def __init__(self, task: Task) -> None:
        model, facts, api = task.provider.model, task.recorder.facts, task.recorder.api
        self.gauge = task.gauge
        self.gauge.talk_to(model.id, facts.requests)
        self.window = Window.of(model)
        system, tools = prompt_of(task)
        self.head = text_tokens(system) + self.gauge.tools(tools)
        self._api = api
        self._shown = self.gauge.summed(api.so_far())
        counted = facts.prompt_tokens
        if counted is not None and counted > self.window.size:
            counted = None  # more than fits, and yet answered: it counts something else
        self._counted = counted if self.gauge.trusts(facts.requests) else None

    def use(self, content: Sequence[UserBlock] = ()) -> int:
        """The tokens of a request that says this after all that was said."""
        return self.gauge.use(self.head, self._shown, blocks_tokens(content), self._counted)

    @property
    def visible(self) -> Sequence[Message]:
        """The messages behind it, each for itself."""
        return self._api.visible

    @property
    def open_results(self) -> Sequence[Message]:
        return self._api.open_results

    @property
    def estimate(self) -> int:
        """The same by our count alone, and without anything new."""
        return self.head + self._shown.sums[-1]

    def use_with(self, said: int) -> int:
        """What `use` would be if the conversation had this estimate; like is compared to like."""
        return self.use() * (self.head + said) // max(1, self.estimate)

    @property
    def said(self) -> int:
        """How much of it could be summed up: all that was said since the last summary."""
        first, counts = self.visible[:1], self.gauge.counts
        summary = counts.of(first[0]) if first and first[0].is_summary else 0
        return self.gauge.whole(self._shown.sums[-1] - summary)

    @property
    def characters(self) -> int:
        """How long the whole conversation may be."""
        tokens = (self.window.allowed - self.gauge.whole(self.head)) / self.gauge.scale
        return max(_LEAST_CHARACTERS, int(tokens) * CHARACTERS_PER_TOKEN)
