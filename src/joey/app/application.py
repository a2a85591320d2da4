"""Application services for a server or a front end: options, modes, commands, models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joey.app.customizations import load_modes, open_customizations
from joey.app.features import remove_worktree
from joey.app.model_choice import (
    StoredModel,
    choose_user_model,
    list_catalogued_ids,
    open_model_catalog,
)
from joey.app.options import (
    UNLIMITED,
    build_new_options,
    build_resume_options,
    check_stored_workspace,
    resolve_workspace,
)
from joey.app.sandbox import detect_sandbox, find_likely_sandbox
from joey.config.config_store import ConfigStore
from joey.config.home import resolve_home_and_env
from joey.config.rule_store import UserRuleStore
from joey.config.settings import check_key_spelling
from joey.core.models import ModelInfo
from joey.core.modes import Mode, SlashCommand
from joey.core.permissions.policy import SandboxStatus
from joey.core.settings import Limits, Profile, TaskSecrets
from joey.engine.engine import ResolvedTaskOptions, TaskOptions
from joey.engine.task import Task
from joey.errors import ConfigError, ToolError, WorkspaceError
from joey.ports.execution import SandboxLevel
from joey.ports.extensions import RuleStore
from joey.ports.storage import TaskMetadata
from joey.providers.catalog import PROVIDER_SPECS, find_model_info
from joey.providers.factory import resolve_model
from joey.workspace.git.repository import GitRepository

if TYPE_CHECKING:
    from joey.app.recordings import RecordingReader
    from joey.core.permissions.granted_rules import GrantedRule


class Application:
    """Options of new tasks, settings and profiles."""

    def __init__(
        self, *, workspace: Path, home: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.home, self._env = resolve_home_and_env(home, env)
        self.workspace = resolve_workspace(workspace)
        self.config_store = ConfigStore(self.home)

    async def show_changes(self) -> str:
        """Return the uncommitted changes of the workspace. Raises WorkspaceError if it is not a git
        repository."""
        try:
            return await GitRepository(self.workspace).show_changes()
        except ToolError as error:
            raise WorkspaceError(str(error)) from error

    def build_options(
        self,
        *,
        workspace: Path | None = None,
        mode: str | None = None,
        profile: str | None = None,
        configuration: dict[str, Any] | None = None,
        limits: Limits = UNLIMITED,
    ) -> ResolvedTaskOptions:
        """Build the options of one task; `configuration` holds settings and profile keys for this
        task only. Raises ConfigError, WorkspaceError."""
        given = configuration or {}
        check_key_spelling(given)
        if profile is not None:
            given = given | {"currentApiConfigName": profile}
        if mode is not None:
            given = given | {"mode": mode}
        directory = resolve_workspace(workspace or self.workspace)
        return build_new_options(directory, limits, given, self.home, self._env)

    def build_resume_options(
        self, task: TaskMetadata, secrets: TaskSecrets | None, configuration: dict[str, Any]
    ) -> TaskOptions:
        """Build the options for reopening a task, with other settings and profile keys. Raises
        ConfigError, WorkspaceError."""
        check_key_spelling(configuration)
        workspace = self.workspace
        if task.workspace:
            workspace = check_stored_workspace(Path(task.workspace), self.home, self._env)
        workspace = resolve_workspace(workspace)
        return build_resume_options(task, workspace, secrets, configuration, self.home, self._env)

    async def remove_task_worktree(self, task_id: str) -> None:
        """Remove the worktree of a deleted task."""
        await remove_worktree(task_id, self.home)

    async def probe_sandbox_level(self) -> str:
        """Return the sandbox level of new tasks' commands."""
        try:
            setting = self.config_store.load_settings().sandbox
        except ConfigError:
            setting = "auto"  # Problems in the settings are reported when a task starts.
        if setting == "off":
            return SandboxLevel.NONE
        return (await asyncio.to_thread(detect_sandbox)).level

    def list_granted_rules(
        self, task: Task | None, workspace: Path | None = None
    ) -> list[GrantedRule]:
        """List what users have allowed in a task, its workspace and everywhere; reads files. Raises
        ConfigError, WorkspaceError."""
        from joey.app.granted_permissions import list_granted_rules  # few clients use it

        grants = None if task is None else task.grants
        return list_granted_rules(grants, self._find_rule_store(task, workspace))

    def revoke_rule(
        self, tasks: Iterable[Task], task: Task | None, workspace: Path | None, rule: GrantedRule
    ) -> bool:
        """Revoke a rule; False if there is no such rule. It ends at once in `tasks`. Raises
        ConfigError, WorkspaceError."""
        from joey.app.granted_permissions import revoke_rule

        store = self._find_rule_store(task, workspace)
        return revoke_rule(tasks, store, rule.setting, rule.text, rule.scope)

    def _find_rule_store(self, task: Task | None, workspace: Path | None) -> RuleStore | None:
        if workspace is None and task is not None:
            return task.runtime.capabilities.rule_store
        directory = self.workspace if workspace is None else resolve_workspace(workspace)
        return UserRuleStore(self.home, directory)

    def find_sandbox(self) -> SandboxStatus:
        """Estimate how commands of new tasks will be sandboxed."""
        return find_likely_sandbox(self.config_store.load_settings())

    def list_modes(self, workspace: Path | None = None) -> tuple[Mode, ...]:
        """List the modes of a workspace, by default the server's own. Raises ConfigError,
        WorkspaceError."""
        directory = self.workspace if workspace is None else resolve_workspace(workspace)
        return load_modes(directory, self.home, self._env, self.config_store.load_settings())

    def list_commands(self) -> tuple[SlashCommand, ...]:
        """Slash commands of the server's workspace. Raises ConfigError."""
        return open_customizations(self.workspace, self.home, self._env).list_commands()

    def list_models(self, provider: str | None) -> dict[str, ModelInfo]:
        """List models worth offering, by default those of the active profile's provider."""
        profiles = self.config_store.load_profiles()
        active = profiles.profiles.get(profiles.active_name, Profile())
        name = provider or active.provider
        catalog = open_model_catalog(self.home)
        ids = dict.fromkeys((active.model, *list_catalogued_ids(name, catalog)))
        return {id: find_model_info(name, id, catalog) for id in ids if id}

    def find_usual_provider(self) -> str | None:
        """Return the provider that files and environment variables choose, if any."""
        try:
            return choose_user_model(
                None, self.config_store.load_profiles(), self._env
            ).profile.provider
        except ConfigError:
            return None

    def find_task_model(self, task: StoredModel) -> ModelInfo | None:
        """Return the known facts about the model that a stored task worked with."""
        profile = self.config_store.load_profiles().profiles.get(task.profile)
        if profile is not None and profile.model == task.model:
            return resolve_model(profile, open_model_catalog(self.home))
        known = bool(task.model) and any(task.provider == kind.name for kind in PROVIDER_SPECS)
        if not known:
            return None
        return find_model_info(task.provider, task.model, open_model_catalog(self.home))

    @cached_property
    def recordings(self) -> RecordingReader:
        # Loaded here because few servers are asked for recordings.
        from joey.app.recordings import RecordingReader

        return RecordingReader(self.home)
