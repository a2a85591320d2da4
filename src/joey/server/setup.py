"""What the server needs from whoever puts it together: the person's choices, and options made
of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from joey.core.models import ModelInfo
from joey.core.modes import Mode, SlashCommand
from joey.core.settings import Limits, Profile, TaskSecrets
from joey.engine.engine import TaskOptions
from joey.ports import TaskMetadata


class KnownProfiles(Protocol):
    @property
    def active(self) -> str: ...

    @property
    def profiles(self) -> dict[str, Profile]: ...


class Preferences(Protocol):
    """Settings and profiles on disk. Every method raises ConfigError when a file or a value is
    not as it should be."""

    def document(self) -> dict[str, Any]: ...

    def change(self, values: dict[str, Any]) -> None: ...

    def change_settings(self, values: dict[str, Any]) -> None: ...

    def profiles(self) -> KnownProfiles: ...

    def profile_entry(self, name: str) -> dict[str, Any]: ...

    def save_profile(
        self, name: str, values: dict[str, Any], *, activate: bool, exists: bool | None = None
    ) -> None: ...

    def activate_profile(self, name: str) -> None: ...

    def delete_profile(self, name: str) -> None: ...


class Setup(Protocol):
    home: Path
    workspace: Path

    def modes(self, workspace: Path | None = None) -> tuple[Mode, ...]:
        """Those of a workspace, by default the server's own. It reads files."""
        ...

    def commands(self) -> tuple[SlashCommand, ...]:
        """Slash commands of the server's workspace. It reads files."""
        ...

    @property
    def preferences(self) -> Preferences: ...

    def options(
        self,
        *,
        workspace: Path | None = None,
        mode: str | None = None,
        profile: str | None = None,
        configuration: dict[str, Any] | None = None,
        limits: Limits = ...,
    ) -> TaskOptions: ...

    def resume_options(
        self, task: TaskMetadata, secrets: TaskSecrets | None, configuration: dict[str, Any]
    ) -> TaskOptions:
        """Options for opening a task again, with other settings and keys of a profile."""
        ...

    async def forget(self, task_id: str) -> None:
        """The task is deleted: what it has outside of its folder goes, too."""
        ...

    async def sandbox(self) -> str:
        """How far commands are confined here; tried when it is first asked."""
        ...

    def models(self, provider: str | None) -> dict[str, ModelInfo]: ...

    def model_of_task(self, task: TaskMetadata) -> ModelInfo | None:
        """What is known of the model that a task at rest worked with."""
        ...
