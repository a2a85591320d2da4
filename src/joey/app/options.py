"""Task options: flags (`-y`, `--allow`) over settings, a client's configuration, inspection.

A client's configuration holds settings and profile keys for one task. Options for inspection open a
task without a key and start nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, structs

from joey.app.customizations import (
    check_mode,
    load_modes,
    open_customizations,
    read_project_restrictions,
)
from joey.app.model_choice import (
    ModelChoice,
    ModelFlags,
    StoredModel,
    apply_client_fields,
    apply_tuning,
    build_client_choice,
    choose_model,
    choose_model_with_key,
    choose_resumed_model,
    choose_user_model,
    require_known_price,
)
from joey.config.config_store import ConfigStore
from joey.config.home import resolve_home_and_env, resolve_user_home
from joey.config.profiles import (
    Profiles,
    convert_client_fields,
    load_profiles,
    split_settings_and_profile,
)
from joey.config.settings import (
    PRIVATE_KEYS,
    ProjectRestrictions,
    describe_unknown_settings,
    load_settings,
    overlay_settings,
    resolve_reopened_settings,
    restrict_settings,
)
from joey.content.isolated_workers import IsolatedSchemaValidator
from joey.core.models import ToolProtocol
from joey.core.path_access import FileScope
from joey.core.permissions.hosts import (
    REGISTRIES,
    NetworkChoice,
    NetworkOrigin,
    join_entries,
    list_entries,
)
from joey.core.permissions.policy import allow_everything
from joey.core.redaction import strip_url_credentials
from joey.core.settings import Limits, Profile, Settings, TaskSecrets
from joey.engine.asks import AnswerPolicy
from joey.engine.engine import ResolvedTaskOptions, StoredTaskState, TaskOptions
from joey.errors import ConfigError, UserError, WorkspaceError
from joey.ports.storage import TaskMetadata
from joey.storage.task_store import TaskSecretFiles
from joey.workspace.files import LocalFiles

UNLIMITED = Limits()
UNATTENDED_COMMAND_TIMEOUT_S = 600
"""Without a user, a command that waits for something must not wait for ever."""


class PermissionFlags(Struct, frozen=True, kw_only=True):
    """The permission flags of a run; `make_options` takes the same."""

    yes: bool = False
    require_approval: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_writes: bool = False
    no_sandbox: bool = False
    network: NetworkChoice | None = None
    add_dirs: tuple[str | Path, ...] = ()

    def __post_init__(self) -> None:
        refuse_text(allow=self.allow, deny=self.deny, add_dirs=self.add_dirs)

    def apply_to(self, settings: Settings) -> Settings:
        """Apply the flags to the settings: `--deny` always counts, `--require-approval` overrides
        `--yes`. With `--yes`, `FileScope` decides which files can be reached: beyond that, and for
        protected files, the user's own settings decide."""
        settings = structs.replace(
            settings, denied_commands=(*settings.denied_commands, *self.deny)
        )
        if self.no_sandbox:
            settings = structs.replace(settings, sandbox="off")
        if self.network is not None:
            listed = list_entries(settings.sandbox_network)
            chosen = join_entries((REGISTRIES, *listed)) if self.network == REGISTRIES else None
            settings = structs.replace(settings, sandbox_network=chosen or self.network)
        if self.allow_writes:
            settings = structs.replace(
                settings, auto_approval_enabled=True, always_allow_write=True
            )
        if self.require_approval:
            return structs.replace(settings, auto_approval_enabled=False)
        if self.yes:
            return structs.replace(allow_everything(settings), auto_approval_enabled=True)
        if self.allow:
            return structs.replace(
                settings,
                auto_approval_enabled=True,
                always_allow_execute=True,
                allowed_commands=(*settings.allowed_commands, *self.allow),
            )
        return settings

    def build_file_scope(
        self, home: Path | None = None, env: Mapping[str, str] | None = None
    ) -> FileScope:
        """Raises WorkspaceError."""
        if not self.add_dirs:
            return FileScope(matches_sandbox=self.yes)
        from joey.app.added_directories import resolve_added_directories

        added = resolve_added_directories(self.add_dirs, *resolve_home_and_env(home, env))
        return FileScope(added_directories=added, matches_sandbox=self.yes)


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
    earlier: StoredModel | None = None,
    secrets: TaskSecrets | None = None,
    allow_writes: bool = False,
    no_sandbox: bool = False,
    network: NetworkChoice | None = None,
    add_dirs: tuple[str | Path, ...] = (),
    record: bool = False,
    api_key: str | None = None,
) -> ResolvedTaskOptions:
    """Build the options that flags and files ask for. A resumed task keeps the model of `earlier`
    unless flags name another; `secrets` are those of an ephemeral task. Raises UserError."""
    (home, env), workspace = resolve_home_and_env(home, env), resolve_workspace(workspace)
    permissions = PermissionFlags(
        yes=yes,
        require_approval=require_approval,
        allow=allow,
        deny=deny,
        allow_writes=allow_writes,
        no_sandbox=no_sandbox,
        network=network,
        add_dirs=add_dirs,
    )
    own_settings = _load_run_settings(home, unattended=policy is not None, record=record)
    settings = permissions.apply_to(own_settings)
    _check_mode(mode, workspace, home, env, settings)
    flags = ModelFlags(provider=provider, model=model, base_url=base_url, profile=profile)
    choice = _choose_run_model(flags, api_key, earlier, secrets, home, env)
    require_known_price(choice.profile, limits, home)
    return ResolvedTaskOptions(
        workspace=workspace,
        profile=choice.profile,
        settings=settings,
        file_scope=permissions.build_file_scope(home, env),
        network_origin=NetworkOrigin(own_settings.sandbox_network, network is not None),
        mode=mode,
        protocol=protocol or (choice.profile.protocol if earlier is None or profile else None),
        limits=limits,
        policy=policy,
        system_prompt=system_prompt,
        route=choice.route,
        secrets=choice.secrets,
    )


def refuse_text(**arguments: object) -> None:
    """Raise UserError for a string in place of a tuple: each of its letters would be an item."""
    for name, value in arguments.items():
        if isinstance(value, str):
            raise UserError(f"`{name}` takes several: write {name}=({value[:80]!r},)")


def _choose_run_model(
    flags: ModelFlags,
    api_key: str | None,
    earlier: StoredModel | None,
    secrets: TaskSecrets | None,
    home: Path,
    env: Mapping[str, str],
) -> ModelChoice:
    if not secrets and isinstance(earlier, TaskMetadata):
        secrets = TaskSecretFiles(home).load(earlier.id)
    return choose_model_with_key(api_key, flags, earlier, load_profiles(home), env, secrets)


def resolve_options(
    options: TaskOptions, stored: StoredTaskState, home: Path, env: Mapping[str, str]
) -> ResolvedTaskOptions:
    """Fill in missing options from what the task remembers, then from files and variables. The
    project's restrictions tighten the settings. Raises ConfigError, WorkspaceError."""
    workspace = _choose_workspace(options, stored, home, env)
    settings = load_settings(home) if options.settings is None else options.settings
    secrets = stored.secrets or options.secrets
    if (profile := options.profile) is not None:
        own_key = bool(profile.base_url or profile.secrets or profile.credentials)
        address = strip_url_credentials(profile.base_url)
        route = structs.replace(profile.route, base_url=address, has_own_key=own_key)
    else:
        choice = choose_model(ModelFlags(), stored.route, load_profiles(home), env, secrets)
        profile, route = choice.profile, choice.route
    route = options.route or route
    private = {} if secrets is None else secrets.settings
    if stored.configuration or private:
        given, _ = split_settings_and_profile(stored.configuration)
        settings = resolve_reopened_settings(settings, given, private)
    previous = stored.route
    if previous and (previous.provider, previous.model) == (profile.provider, profile.model):
        # An extra body can hold anything, and a task directory may come from elsewhere.
        kept = {k: v for k, v in stored.configuration.items() if k != "extraBody"}
        profile = apply_tuning(profile, {**kept, **options.configuration})
    if settings.profile_thresholds:  # by name or, as Roo has them, by id
        names = load_profiles(home).find_name
        thresholds = {names(key): value for key, value in settings.profile_thresholds.items()}
        settings = structs.replace(settings, profile_thresholds=thresholds)
    if previous and previous.is_explicit:
        route = structs.replace(route, is_explicit=True)  # kept once chosen for the task
    restrictions = read_project_restrictions(LocalFiles(workspace), home, env)
    origin = options.network_origin or NetworkOrigin(is_pinned=options.settings is not None)
    restrict = partial(_restrict, restrictions, options.restrict_settings)
    resolved = {
        "workspace": workspace,
        "profile": profile,
        "settings": restrict(settings),
        "restrict_settings": restrict,
        "network_origin": structs.replace(
            origin,
            is_pinned=origin.is_pinned or "sandboxNetwork" in stored.configuration,
            ceiling=restrictions.allowed_network or "all",
        ),
        "route": route,
    }
    return ResolvedTaskOptions(**{**structs.asdict(options), **resolved})


async def add_result_schema(options: ResolvedTaskOptions, document: object) -> ResolvedTaskOptions:
    """Return the options with a JSON schema for the result. Raises ConfigError if it cannot be
    used."""
    schema = await IsolatedSchemaValidator().check_schema(document)
    return structs.replace(options, result_schema=schema)


def _choose_workspace(
    options: TaskOptions, stored: StoredTaskState, home: Path, env: Mapping[str, str]
) -> Path:
    if isinstance(options, ResolvedTaskOptions):
        return options.workspace
    workspace = options.workspace
    if workspace is None and stored.workspace is not None:
        workspace = check_stored_workspace(stored.workspace, home, env)
    return resolve_workspace(workspace or Path.cwd())


def collect_settings_warnings() -> tuple[str, ...]:
    """Collect warnings about settings that are unknown or name something that does not exist."""
    home, _ = resolve_home_and_env()
    try:
        about_profiles = load_profiles(home).missing_active_warning
    except ConfigError:
        about_profiles = ""  # commands that choose a model report errors in the file
    return (*filter(None, (about_profiles,)), *describe_unknown_settings(home))


def _load_run_settings(home: Path, *, unattended: bool, record: bool) -> Settings:
    settings = load_settings(home)
    if record:
        settings = structs.replace(settings, record_requests=True)
    if unattended and not settings.command_execution_timeout:
        return structs.replace(settings, command_execution_timeout=UNATTENDED_COMMAND_TIMEOUT_S)
    return settings


def _check_mode(
    slug: str | None, workspace: Path, home: Path, env: Mapping[str, str], settings: Settings
) -> None:
    check_mode(
        slug,
        lambda: load_modes(workspace, home, env, settings),
        lambda: open_customizations(workspace, home, env).warnings,
    )


def _restrict(
    project: ProjectRestrictions,
    further: Callable[[Settings], Settings] | None,
    settings: Settings,
) -> Settings:
    restricted = restrict_settings(settings, project)
    return restricted if further is None else further(restricted)


def check_stored_workspace(directory: Path, home: Path, env: Mapping[str, str]) -> Path:
    """Check the workspace that a task directory names, which may come from elsewhere: a directory
    with the user's keys or start-up files is accepted only if the user is in it. Raises
    WorkspaceError."""
    real = Path(os.path.realpath(directory))
    user_home, joey_directory = (
        Path(os.path.realpath(each)) for each in (resolve_user_home(env), home)
    )
    is_wide = (
        user_home.is_relative_to(real)
        or joey_directory.is_relative_to(real)
        or real.is_relative_to(joey_directory)
    )
    is_hidden = real.is_relative_to(user_home) and str(real.relative_to(user_home)).startswith(".")
    if (is_wide or is_hidden) and real.exists() and real != Path(os.path.realpath(Path.cwd())):
        raise WorkspaceError(
            f"This task works in {directory}, as its folder says; keys and start-up files of yours "
            f"may be there. If that is intended, run joey there, or name it with -w {directory}."
        )
    return directory


def resolve_workspace(workspace: Path) -> Path:
    directory = workspace.expanduser().absolute()
    try:
        with os.scandir(directory):
            return directory.resolve(strict=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WorkspaceError(f"The workspace {directory} cannot be used: {reason}.") from error


_STORED_SETTINGS = frozenset(Settings.__struct_encode_fields__) - PRIVATE_KEYS - {"mode"}
"""Settings that a task keeps in its folder; its mode has a record of its own."""


class _ClientConfiguration(Struct, frozen=True):
    settings: dict[str, Any]
    profile_keys: dict[str, Any]
    profile_name: str | None
    mode: str | None


def apply_configuration(
    options: ResolvedTaskOptions,
    values: dict[str, Any],
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> ResolvedTaskOptions:
    """Apply a client's configuration to the options of a new task; denied rules stay denied. Raises
    ConfigError, which names the invalid key."""
    home, env = resolve_home_and_env(home, env)
    parsed = _split_client_configuration(values, home)
    settings = _overlay_settings(options.settings, parsed, options.workspace, home, env)
    options = _apply_client_settings(options, settings, parsed)
    profiles = load_profiles(home)
    if parsed.profile_name is not None:
        base = _choose_user_model(parsed, profiles, env)
    elif parsed.profile_keys:
        base = ModelChoice(options.profile, options.route, options.secrets)
    else:
        return options
    return _apply_model_choice(options, base, parsed, home, env)


def build_new_options(
    workspace: Path, limits: Limits, values: dict[str, Any], home: Path, env: Mapping[str, str]
) -> ResolvedTaskOptions:
    """Build the options of a new task from the user's files and this configuration. Raises
    ConfigError, which names the invalid key."""
    user_settings = load_settings(home)
    parsed = _split_client_configuration(values, home)
    settings = _overlay_settings(user_settings, parsed, workspace, home, env)
    base = _choose_user_model(parsed, load_profiles(home), env)
    options = ResolvedTaskOptions(
        workspace=workspace,
        profile=base.profile,
        settings=settings,
        network_origin=NetworkOrigin(user_settings.sandbox_network),
        route=base.route,
        limits=limits,
    )
    options = _apply_client_settings(options, settings, parsed)
    return _apply_model_choice(options, base, parsed, home, env)


def _choose_user_model(
    parsed: _ClientConfiguration, profiles: Profiles, env: Mapping[str, str]
) -> ModelChoice:
    try:
        return choose_user_model(parsed.profile_name, profiles, env)
    except ConfigError:
        fields = convert_client_fields(parsed.profile_keys, Profile().provider)
        base = None if parsed.profile_name else build_client_choice(profiles.active_name, fields)
        if base is None:
            raise
        return base


def build_resume_options(
    task: StoredModel,
    workspace: Path,
    secrets: TaskSecrets | None,
    values: dict[str, Any],
    home: Path,
    env: Mapping[str, str],
) -> TaskOptions:
    """Build the options for reopening a task with this configuration. Raises ConfigError."""
    parsed = _split_client_configuration(values, home)
    preferences = ConfigStore(home)
    user_settings = preferences.load_settings()
    settings = _overlay_settings(user_settings, parsed, workspace, home, env)
    origin = NetworkOrigin(user_settings.sandbox_network)
    options = _apply_client_settings(
        TaskOptions(workspace=workspace, network_origin=origin), settings, parsed
    )
    if parsed.profile_name is not None:
        base = choose_user_model(parsed.profile_name, preferences.load_profiles(), env)
    elif parsed.profile_keys:
        fields = convert_client_fields(parsed.profile_keys, task.provider)
        base = choose_resumed_model(fields, task, secrets, preferences.load_profiles(), env)
    else:
        return options
    return _apply_model_choice(options, base, parsed, home, env)


def _split_client_configuration(values: dict[str, Any], home: Path) -> _ClientConfiguration:
    settings, keys = split_settings_and_profile(
        {name: value for name, value in values.items() if value is not None}
    )
    profile = _require_text_or_none(
        "currentApiConfigName", settings.pop("currentApiConfigName", None)
    )
    profiles = load_profiles(home) if profile else Profiles()
    if profile == profiles.active_name and profile not in profiles.profiles:
        profile = None  # what `getConfiguration` returns while there are no profiles
    return _ClientConfiguration(
        settings, keys, profile, _require_text_or_none("mode", settings.get("mode"))
    )


def _require_text_or_none(key: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{key} must be text, not {type(value).__name__}.")
    return value


def _overlay_settings(
    settings: Settings,
    parsed: _ClientConfiguration,
    workspace: Path,
    home: Path,
    env: Mapping[str, str],
) -> Settings:
    settings = overlay_settings(settings, parsed.settings)
    _check_mode(parsed.mode, workspace, home, env, settings)
    return settings


_Options = TypeVar("_Options", bound=TaskOptions)


def _apply_client_settings(
    options: _Options, settings: Settings, parsed: _ClientConfiguration
) -> _Options:
    private = {name: value for name, value in parsed.settings.items() if name in PRIVATE_KEYS}
    secrets = options.secrets
    if private:
        secrets = structs.replace(secrets or TaskSecrets(), settings=private)
    origin = options.network_origin
    if origin is not None and "sandboxNetwork" in parsed.settings:
        origin = structs.replace(origin, is_pinned=True)
    return structs.replace(
        options,
        settings=settings,
        network_origin=origin,
        mode=parsed.mode or options.mode,
        secrets=secrets,
        configuration={
            name: value for name, value in parsed.settings.items() if name in _STORED_SETTINGS
        },
    )


def _apply_model_choice(
    options: _Options,
    choice: ModelChoice,
    parsed: _ClientConfiguration,
    home: Path,
    env: Mapping[str, str],
) -> _Options:
    """Apply the chosen model and the client's keys to the options."""
    if parsed.profile_keys:
        fields = convert_client_fields(parsed.profile_keys, choice.profile.provider)
        choice = apply_client_fields(choice, fields, env)
    require_known_price(choice.profile, options.limits, home)
    secrets = choice.secrets
    if options.secrets is not None and options.secrets.settings:
        secrets = structs.replace(secrets or TaskSecrets(), settings=options.secrets.settings)
    return structs.replace(
        options,
        profile=choice.profile,
        route=choice.route,
        protocol=choice.profile.protocol or options.protocol,
        secrets=secrets,
        configuration=options.configuration | choice.tuning,
    )


def make_inspect_options(
    workspace: str, home: Path | None = None, env: Mapping[str, str] | None = None
) -> ResolvedTaskOptions:
    """Build options that ask for no key and start nothing: the model is never used, and what the
    task stores stays unchanged. Raises ConfigError."""
    quiet = structs.replace(
        load_settings(resolve_home_and_env(home, env)[0]),
        mcp_enabled=False,
        codebase_index_enabled=False,
        browser_tool_enabled=False,
        image_profile="",
    )
    profile = Profile()
    return ResolvedTaskOptions(
        workspace=Path(workspace) if workspace else Path.cwd(),
        profile=profile,
        settings=quiet,
        route=profile.route,
    )
