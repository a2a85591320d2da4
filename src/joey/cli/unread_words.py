"""Words that were typed while a task worked, and that it had not read when it came to rest.

They come back to the person, as they would stand in the screen's composer: to be sent, or not.
"""

from __future__ import annotations

from joey.client.session import Session
from joey.core.events import MessageUnqueued
from joey.engine.engine import Engine
from joey.engine.task import Task


class UnreadWords:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listeners: set[str] = set()
        """Those with whom words may wait, as long as they are open."""
        self._words: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self._words)

    def may_wait_for(self, listener: Session) -> None:
        self._listeners.add(listener.id)

    def take_back(self) -> bool:
        """Whether there are any that nobody has read."""
        for task in map(self._engine.find, sorted(self._listeners)):
            if task is not None:
                self._words += _unqueue(task)
        return bool(self._words)

    def forget(self) -> None:
        self._words.clear()
        self._listeners.clear()


def _unqueue(task: Task) -> list[str]:
    waiting = tuple(task.recorder.facts.queue.values())
    for message in waiting:
        task.publish(MessageUnqueued(ts=task.now(), id=message.id))
    return [message.text for message in waiting]
