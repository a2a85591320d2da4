"""What sessions need from the rest of joey; whoever starts them brings it along."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from joey.client.local import TaskOptions
from joey.core.modes import Mode
from joey.core.settings import Route, TaskSecrets
from joey.ports import TaskMetadata


class Choice(Struct, frozen=True):
    """Something that can be chosen, or called, by its name."""

    name: str
    about: str = ""
    hint: str = ""
    """What may follow the name of a command."""


class Page(Struct, frozen=True):
    tasks: Sequence[TaskMetadata]
    more: bool = False


class House(Protocol):
    """Each may look at files: call it in a thread. All raise UserError."""

    def check_folder(self, folder: Path) -> Path:
        """The folder as it is really called."""
        ...

    def new_options(self, folder: Path, mode: str | None, model: str | None) -> TaskOptions:
        """Of a new task."""
        ...

    def other_options(
        self, folder: Path, model: str, earlier: Route, secrets: TaskSecrets | None
    ) -> TaskOptions:
        """Of a task that is to go on with another model."""
        ...

    def modes(self, folder: Path) -> Sequence[Mode]: ...

    def commands(self, folder: Path) -> Sequence[Choice]:
        """What may be written with a slash."""
        ...

    def remarks(self, folder: Path) -> Sequence[str]:
        """What of the person's files, or of the folder's, is not used: a line each."""
        ...

    def models(self, provider: str) -> Sequence[str]:
        """Those that are worth offering."""
        ...

    def tasks(self, folder: str | None, skip: int, most: int) -> Page:
        """Tasks that are no subtasks, the most recently changed first."""
        ...

    def missing(self) -> str | None:
        """Why no model can be talked to; None when one can."""
        ...
