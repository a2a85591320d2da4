"""Rules that a person adds while a task is at work: "always allow this"."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from joey.core.events import AskAnswered, Record, Said
from joey.core.permissions.policy import (
    EDITS,
    Claim,
    SecondReading,
    StandingRule,
    TaskRule,
    standing_rule,
    task_rule,
    with_rule,
)
from joey.core.settings import Settings
from joey.core.task import Answer
from joey.errors import ConfigError

if TYPE_CHECKING:
    from joey.engine.task import Task


class Granted:
    """Those of a task and its subtasks, which count for all of them at once."""

    def __init__(self) -> None:
        self._rules: list[StandingRule | TaskRule] = []
        self._edits_by: tuple[str, int] | None = None
        """The task and the question in whose answer edits were accepted."""

    @property
    def rules(self) -> Sequence[StandingRule | TaskRule]:
        return self._rules

    @property
    def edits(self) -> bool:
        """Files of the workspace may be changed without a question."""
        return EDITS in self._rules

    def add(self, rule: StandingRule | TaskRule) -> None:
        if rule not in self._rules:
            self._rules.append(rule)

    def accept_edits(self, task_id: str, ask_ts: int) -> None:
        if not self.edits:
            self.add(EDITS)
            self._edits_by = (task_id, ask_ts)

    def loses_edits(self, task_id: str, after: Sequence[Record], *, with_subtasks: bool) -> bool:
        """The answer that accepted them is not in what a task's history would be. Of one to a
        subtask nothing is known: it may have been one of those that go."""
        if self._edits_by is None or not self.edits:
            return False
        asker, ask_ts = self._edits_by
        if asker != task_id:
            return with_subtasks
        answers = (each.event for each in after if isinstance(each.event, AskAnswered))
        return all(answered.ask_ts != ask_ts for answered in answers)

    def withdraw_edits(self) -> bool:
        """Ask about each edit again; False when they are asked about anyway."""
        if not self.edits:
            return False
        self._rules.remove(EDITS)
        return True

    def over(self, settings: Settings) -> Settings:
        for rule in self._rules:
            if isinstance(rule, StandingRule):
                settings = with_rule(settings, rule)
        return settings


async def rule_to_offer(
    task: Task, claims: Sequence[Claim], read: SecondReading | None
) -> StandingRule | TaskRule | None:
    """What the person may add with their answer; None where that would not be just this."""
    if (leave := task_rule(claims, task.settings)) is not None:
        return leave
    rulebook = task.bench.extras.rulebook
    if rulebook is None:
        return None
    rule = standing_rule(claims, task.settings, read)
    if rule is None or (rule.setting == "allowedMcpTools" and _wakes_lists(task)):
        return None
    return rule if await asyncio.to_thread(rulebook.takes, rule) else None


def _wakes_lists(task: Task) -> bool:
    """Tools that servers have on lists of their own would run unasked, too."""
    mcp = task.bench.extras.mcp
    if task.settings.always_allow_mcp or mcp is None:
        return False
    return any(tool.always_allowed for server in mcp.servers for tool in server.tools)


async def heed_always(
    task: Task, rule: StandingRule | TaskRule | None, answer: Answer, ask_ts: int
) -> None:
    """Go by the rule at once, if that is what the person said, and write it down if it outlives
    the task."""
    if rule is None or not (answer.always and answer.approves):
        return
    if isinstance(rule, TaskRule):
        task.granted.accept_edits(task.id, ask_ts)
        return
    task.granted.add(rule)
    rulebook = task.bench.extras.rulebook
    if rulebook is None:
        return
    try:
        await asyncio.to_thread(rulebook.add, rule)
    except ConfigError as error:
        text = f"`{rule.text}` is allowed for this task, but could not be kept: {error}"
        task.publish(Said(ts=task.now(), say="error", text=text))
