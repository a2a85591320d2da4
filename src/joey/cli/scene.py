"""A task and its subtasks on one screen: who speaks is said when it changes.

As long as one speaks alone, its words are drawn as they come. When several speak at a time, each
is drawn in whole pieces, so that their lines do not run into each other.
"""

from __future__ import annotations

from joey.cli.render import Renderer
from joey.client.session import Session
from joey.core.events import (
    PASSING,
    AskOpened,
    CallGrew,
    ChildSpawned,
    ContextCondensed,
    ContextTruncated,
    Event,
    ModeSwitched,
    ReplyReceived,
    RequestStarted,
    RowOpened,
    Said,
    TaskAborted,
    TaskFailed,
    TaskFinished,
    TaskPaused,
    TaskStarted,
    TaskUnpaused,
    TodosChanged,
    ToolAnnounced,
    ToolFinished,
    UsageChanged,
    UserSaid,
)
from joey.core.messages import CallPart
from joey.presentation.text import one_line

TITLE = 70
UNSEEN = frozenset({"api_req_retried", "subtask_result"})
"""Rows that are not drawn."""


class Scene:
    def __init__(self, root: Session, renderer: Renderer) -> None:
        self._root = root
        self._renderers = {root.id: renderer}
        """Each task has its own, all for the same screen."""
        self._front: Session = root
        """Whose lines were drawn last."""
        self._speaking = {root.id}
        self._begun: set[tuple[str, int]] = set()
        """Rows that are drawn while they grow."""
        self._names: dict[str, str] = {}

    @property
    def listener(self) -> Session:
        """The one to whom words are said that were not asked for."""
        heeds = self._front.id in self._speaking and self._front.running
        return self._front if heeds else self._root

    def show(self, teller: Session, event: Event) -> None:
        self._note(teller, event)
        if type(event) in PASSING and not self._may_grow(teller, event):
            return
        if isinstance(event, UserSaid) and event.first and teller is not self._root:
            return  # the headline says it
        if self._is_seen(teller, event):
            self.renderer(teller).show(event)
        elif not isinstance(event, RequestStarted):
            self._renderer_of(teller).show(event)

    def renderer(self, teller: Session) -> Renderer:
        """That of `teller`, which is in front from now on."""
        renderer = self._renderer_of(teller)
        if teller.id != self._front.id:
            self._renderer_of(self._front).rest()
            self._front = teller
            renderer.note(f"\n┄┄ {self._name(teller)}")
        return renderer

    def _renderer_of(self, teller: Session) -> Renderer:
        if teller.id not in self._renderers:
            self._renderers[teller.id] = self._renderers[self._root.id].another()
        return self._renderers[teller.id]

    def _note(self, teller: Session, event: Event) -> None:
        match event:
            case ChildSpawned(child_id=child_id):
                self._number(child_id)
            case UserSaid(first=True, text=text) if teller is not self._root:
                self._names[teller.id] = f"{self._number(teller.id)}: {one_line(text, TITLE)}"
            case TaskStarted() | TaskUnpaused():
                self._speaking.add(teller.id)
            case TaskPaused() | TaskFinished() | TaskAborted() | TaskFailed():
                self._speaking.discard(teller.id)

    def _number(self, task_id: str) -> str:
        return self._names.setdefault(task_id, f"subtask {len(self._names) + 1}")

    def _name(self, teller: Session) -> str:
        return "the task goes on" if teller is self._root else self._number(teller.id)

    @property
    def _is_solo(self) -> bool:
        return len(self._speaking) <= 1

    def _may_grow(self, teller: Session, event: Event) -> bool:
        row = (teller.id, event.ts)
        if self._is_solo:
            self._begun.add(row)
        return row in self._begun

    def _is_seen(self, teller: Session, event: Event) -> bool:
        """Whether something will be drawn; what nobody sees brings nobody to the front."""
        match event:
            case RequestStarted():
                return self._is_solo
            case ReplyReceived(parts=parts):
                return any(
                    not isinstance(placed.part, CallPart)
                    and bool(placed.part.text.strip())
                    and (teller.id, placed.ts) not in self._begun
                    for placed in parts
                )
            case RowOpened(tool=tool):
                return tool is not None
            case ToolFinished():
                return self._renderer_of(teller).shows_result(event)
            case Said(say=say):
                return say not in UNSEEN
            case UserSaid():
                return self._renderer_of(teller).echoes
            case UsageChanged() | CallGrew():
                return False
            case AskOpened() | ToolAnnounced() | TodosChanged() | ModeSwitched():
                return True
            case TaskAborted() | TaskFailed() | ContextCondensed() | ContextTruncated():
                return True
            case _:
                return type(event) in PASSING
