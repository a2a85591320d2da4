"""The composition root: settings become adapters, adapters become a workbench, and the engine
puts tasks on it. The one module that knows everybody."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from joey.config.choose import choose_profile
from joey.config.home import joey_home as joey_home  # noqa: PLC0414 (front ends ask here)
from joey.config.preferences import Preferences, split
from joey.config.profiles import Profiles, load_profiles
from joey.config.settings import load_settings
from joey.core.models import ModelInfo
from joey.core.modes import BUILT_IN, find_mode
from joey.core.protocol import ToolProtocol
from joey.core.settings import Limits, Profile, Route, Settings
from joey.engine.asks import AnswerPolicy
from joey.engine.engine import Engine, TaskOptions
from joey.engine.workbench import Workbench
from joey.errors import ConfigError, WorkspaceError
from joey.knowledge.web_pages import WebPages
from joey.ports import Extras, Store
from joey.providers.catalog import lookup, models_of
from joey.providers.http import HttpClient
from joey.providers.kinds import KINDS, find_kind
from joey.providers.select import make_provider, model_of
from joey.stores.json_files import JsonFileStore
from joey.stores.memory import MemoryStore
from joey.terminals.local import LocalTerminal
from joey.tools.registry import Registry, default_tools
from joey.workspace.clock import SystemClock
from joey.workspace.environment import LocalEnvironment
from joey.workspace.files import LocalFiles
from joey.workspace.repository import GitRepository
from joey.workspace.search import LocalSearch


class KnownModel(Protocol):
    """What is remembered of the model that a task works with."""

    @property
    def profile(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def model(self) -> str: ...


ALLOW_EVERYTHING = "*"
UNLIMITED = Limits()
UNATTENDED_COMMAND_SECONDS = 600
"""Without a person, a command that waits for something must not wait for ever."""


def open_engine(
    *,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    ephemeral: bool = False,
) -> Engine:
    """An engine that keeps its tasks under `home` (`JOEY_HOME`, else `~/.roo`).

    With `ephemeral`, tasks live in memory and are gone with the process.
    """
    env = os.environ if env is None else env
    home = home or joey_home(env)
    store: Store = MemoryStore() if ephemeral else open_store(home, env)
    registry = Registry(default_tools())

    def make_bench(options: TaskOptions) -> Workbench:
        return _make_bench(options, registry, home, env)

    return Engine(store, SystemClock(), make_bench)


def open_store(home: Path | None = None, env: Mapping[str, str] | None = None) -> Store:
    """The tasks on disk."""
    return JsonFileStore(home or joey_home(os.environ if env is None else env))


def make_options(  # noqa: PLR0913 (one argument per flag, all by name)
    *,
    workspace: Path,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    provider: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    profile: str | None = None,
    mode: str | None = None,
    protocol: ToolProtocol | None = None,
    yes: bool = False,
    require_approval: bool = False,
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    limits: Limits = UNLIMITED,
    policy: AnswerPolicy | None = None,
    system_prompt: str | None = None,
    earlier: KnownModel | None = None,
    allow_writes: bool = False,
) -> TaskOptions:
    """What a person's flags and files ask for.

    `earlier` is what a task that is resumed worked with: it stays with its model and address
    unless the flags name others.

    Raises:
        ConfigError: settings, profiles, keys or the mode's name.
        WorkspaceError: the folder cannot be worked in.
    """
    env = os.environ if env is None else env
    home = home or joey_home(env)
    workspace = _usable(workspace)
    settings = _settings(home, unattended=policy is not None)
    _check_mode(mode)
    profiles = load_profiles(home)
    if earlier is not None and not (provider or base_url or profile):
        provider, base_url, profile = _as_before(earlier, profiles)
        model = model or earlier.model or None
    chosen = choose_profile(
        profiles=profiles,
        env=env,
        kinds=KINDS,
        provider=provider,
        model=model,
        base_url=base_url,
        profile=profile,
    )
    _check_price(chosen, limits)
    return TaskOptions(
        workspace=workspace,
        profile=chosen,
        settings=_permissions(settings, yes, require_approval, allow, deny, allow_writes),
        mode=mode,
        protocol=protocol or chosen.protocol,
        limits=limits,
        policy=policy,
        system_prompt=system_prompt,
        route=_remembered(chosen, profiles, base_url),
    )


def _as_before(
    earlier: KnownModel, profiles: Profiles
) -> tuple[str | None, str | None, str | None]:
    """Provider, address and profile of an earlier run; a profile that still exists says it all."""
    if earlier.profile in profiles.profiles:
        return None, None, earlier.profile
    return earlier.provider or None, earlier.base_url, None


def _settings(home: Path, *, unattended: bool) -> Settings:
    settings = load_settings(home)
    if unattended and not settings.command_execution_timeout:
        return structs.replace(settings, command_execution_timeout=UNATTENDED_COMMAND_SECONDS)
    return settings


def _remembered(chosen: Profile, profiles: Profiles, base_url: str | None) -> Route:
    """An address from a flag or a profile stays with the task; one from the environment may
    change with it."""
    known = profiles.profiles.get(chosen.name)
    stated = base_url or (known.base_url if known is not None else None)
    return structs.replace(chosen.route, base_url=stated)


def _check_mode(slug: str | None) -> None:
    if slug is not None and find_mode(slug) is None:
        known = ", ".join(mode.slug for mode in BUILT_IN)
        raise ConfigError(f"There is no mode {slug!r}. Known ones: {known}.")


def _permissions(
    settings: Settings,
    yes: bool,
    require_approval: bool,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    allow_writes: bool,
) -> Settings:
    """Flags over settings: `--deny` always counts, `--require-approval` beats `--yes`."""
    settings = structs.replace(settings, denied_commands=(*settings.denied_commands, *deny))
    if allow_writes:
        settings = structs.replace(settings, auto_approval_enabled=True, always_allow_write=True)
    if require_approval:
        return structs.replace(settings, auto_approval_enabled=False)
    if yes:
        return structs.replace(
            settings,
            auto_approval_enabled=True,
            always_allow_read_only=True,
            always_allow_read_only_outside_workspace=True,
            always_allow_write=True,
            always_allow_write_outside_workspace=True,
            always_allow_write_protected=True,
            always_allow_execute=True,
            always_allow_mode_switch=True,
            always_allow_subtasks=True,
            always_allow_mcp=True,
            always_allow_browser=True,
            allowed_commands=(ALLOW_EVERYTHING,),
        )
    if allow:
        return structs.replace(
            settings,
            auto_approval_enabled=True,
            always_allow_execute=True,
            allowed_commands=(*settings.allowed_commands, *allow),
        )
    return settings


def _check_price(profile: Profile, limits: Limits) -> None:
    """A budget that cannot be kept is refused before anything is spent."""
    if limits.max_cost is None or find_kind(profile.provider).is_local:
        return
    if model_of(profile).prices is None:
        raise ConfigError(
            f"The price of {profile.model!r} is not known, so a budget cannot be kept. Limit the"
            " turns or the time instead (--max-turns, --max-wall-time)."
        )


def _usable(workspace: Path) -> Path:
    folder = workspace.expanduser().absolute()
    try:
        with os.scandir(folder):
            return folder.resolve(strict=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WorkspaceError(f"The workspace {folder} cannot be used: {reason}.") from error


def _make_bench(
    options: TaskOptions, registry: Registry, home: Path, env: Mapping[str, str]
) -> Workbench:
    if options.profile is None or options.workspace is None or options.settings is None:
        workspace = options.workspace or Path.cwd()
        made = make_options(workspace=workspace, home=home, env=env, earlier=options.earlier)
        options = structs.replace(
            options,
            workspace=made.workspace,
            profile=options.profile or made.profile,
            settings=options.settings or made.settings,
            route=options.route or made.route,
        )
    assert options.profile and options.workspace and options.settings
    files = LocalFiles(options.workspace)
    search = LocalSearch(files)
    return Workbench(
        provider=make_provider(options.profile, HttpClient(environ=env)),
        registry=registry,
        files=files,
        search=search,
        terminal=LocalTerminal(env),
        environment=LocalEnvironment(files, search),
        clock=SystemClock(),
        settings=options.settings,
        modes=BUILT_IN,
        limits=options.limits,
        route=options.route or options.profile.route,
        system_prompt=options.system_prompt,
        extras=Extras(
            repository=GitRepository(options.workspace),
            pages=WebPages(),
        ),
    )


class Setup:
    """What a server needs to know and may change: options of new tasks, settings, profiles."""

    modes = BUILT_IN

    def __init__(
        self, *, workspace: Path, home: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._env = os.environ if env is None else env
        self.home = home or joey_home(self._env)
        self.workspace = _usable(workspace)
        self.preferences = Preferences(self.home)

    def options(
        self,
        *,
        workspace: Path | None = None,
        mode: str | None = None,
        profile: str | None = None,
        configuration: dict[str, Any] | None = None,
    ) -> TaskOptions:
        """Options of one task; `configuration` holds settings and keys of a profile for it alone.

        Raises:
            ConfigError, WorkspaceError
        """
        settings, keys = split(configuration or {})
        settings = {name: value for name, value in settings.items() if value is not None}
        profile = profile or settings.pop("currentApiConfigName", None)
        mode = mode or settings.get("mode")
        _check_mode(mode)
        profiles = self._profiles(profile, keys)
        chosen = choose_profile(profiles=profiles, env=self._env, kinds=KINDS, profile=profile)
        return TaskOptions(
            workspace=_usable(workspace or self.workspace),
            profile=chosen,
            settings=self.preferences.settings_with(settings),
            mode=mode,
            protocol=chosen.protocol,
            route=_remembered(chosen, profiles, None),
        )

    def _profiles(self, name: str | None, keys: dict[str, Any]) -> Profiles:
        """Those on disk, and the one that a task brings along."""
        profiles = self.preferences.profiles()
        if not keys:
            return profiles
        given = self.preferences.profile_with(keys, name)
        return Profiles(given.name, {**profiles.profiles, given.name: given})

    def models(self, provider: str | None) -> dict[str, ModelInfo]:
        """Models worth offering, of the active profile's provider unless one is named."""
        profiles = self.preferences.profiles()
        active = profiles.profiles.get(profiles.active, Profile())
        name = provider or active.provider
        ids = dict.fromkeys((active.model, *models_of(name)))
        return {id: lookup(name, id) for id in ids if id}
