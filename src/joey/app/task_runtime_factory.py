"""Construction of a task's runtime: adapters chosen by its options.

Code indexes are shared by the tasks of an engine that work in the same workspace. Pages in the
browser get files only through the workspace: the browser itself opens none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from joey.app.customizations import is_trusted, load_customizations, load_project_hooks
from joey.app.known_secrets import build_http_client
from joey.app.mcp_pool import McpServerPool
from joey.app.options import require_known_price
from joey.app.sandbox import build_boundary, build_sandbox
from joey.config.config_store import SettingsRuleStore
from joey.config.profiles import choose_profile, load_profiles
from joey.content.browser import Chromium, find_chromium, parse_viewport
from joey.content.code_index import WorkspaceIndexPool
from joey.content.diagnostics import LocalDiagnostics
from joey.content.isolated_workers import (
    IsolatedDocumentReader,
    IsolatedSchemaValidator,
    WebPageFetcher,
)
from joey.content.outlines import OutlineExtractor
from joey.core.settings import Settings
from joey.engine.engine import ResolvedTaskOptions, TaskOptions
from joey.engine.runtime import SUMMARY_PROFILE_KEY, ModeProviders, TaskRuntime
from joey.errors import ConfigError, ToolError
from joey.execution.bash_grammar import BashGrammar
from joey.execution.command_environment import build_command_environment
from joey.execution.custom_tools import LocalCustomTools
from joey.execution.hooks import HookEnvironment, LocalHooks
from joey.execution.terminal import LocalTerminal, find_shell
from joey.ports.content import CodeIndex
from joey.ports.execution import Sandbox
from joey.ports.model import Embedder, Provider
from joey.ports.tool_context import Capabilities
from joey.ports.workspace import Files
from joey.providers.catalog import PROVIDER_SPECS
from joey.providers.factory import make_provider
from joey.providers.image_generation import ProfileImageGenerator
from joey.tools.registry import Registry
from joey.workspace.checkpoints.pool import CheckpointStorePool, TaskCheckpoints
from joey.workspace.environment import LocalEnvironment, SystemClock
from joey.workspace.files import LocalFiles
from joey.workspace.git.process import find_repository_root
from joey.workspace.git.repository import GitRepository
from joey.workspace.git.worktrees import GitWorktrees
from joey.workspace.listing import list_indexable_files
from joey.workspace.search import LocalSearch

if TYPE_CHECKING:
    from joey.engine.result_schema import ResultValidator


def build_runtime(
    options: ResolvedTaskOptions,
    registry: Registry,
    servers: McpServerPool,
    indexes: ConfiguredIndexPool,
    checkpoints: CheckpointStorePool,
    worktrees: Path | None,
    home: Path,
    env: Mapping[str, str],
) -> TaskRuntime:
    """`worktrees` is the folder for those of subtasks, where they may have any."""
    sandbox, files = _build_sandbox_and_files(options, home, env)
    search = LocalSearch(files)
    http_client = build_http_client(options.profile, env)
    return TaskRuntime(
        provider=make_provider(options.profile, http_client, options.route),
        tool_registry=registry,
        files=_wrap_files(options, files),
        search=search,
        terminal=LocalTerminal(env, sandbox=sandbox),
        environment=LocalEnvironment(files, search),
        clock=SystemClock(),
        settings=options.settings,
        file_scope=options.file_scope,
        limits=options.limits,
        route=options.route,
        base_url=options.profile.base_url,
        mode_providers=_build_mode_providers(options, home, env),
        system_prompt=options.system_prompt,
        result_validator=_build_result_validator(options),
        tool_set_cache=servers.tool_set_cache,
        capabilities=_build_capabilities(
            options, files, servers, indexes, checkpoints, worktrees, home, env
        ),
    )


def _build_capabilities(
    options: ResolvedTaskOptions,
    files: LocalFiles,
    servers: McpServerPool,
    indexes: ConfiguredIndexPool,
    checkpoints: CheckpointStorePool,
    worktrees: Path | None,
    home: Path,
    env: Mapping[str, str],
) -> Capabilities:
    return Capabilities(
        outlines=OutlineExtractor(),
        documents=IsolatedDocumentReader(files),
        customizations=load_customizations(files, home, env, options.settings, options.trust_root),
        hooks=build_hooks(files, home, env, options.settings, options.trust_root),
        rule_store=SettingsRuleStore(home),
        repository=GitRepository(options.workspace),
        worktrees=GitWorktrees.open_if_supported(files.root, worktrees)
        if worktrees is not None
        else None,
        page_fetcher=WebPageFetcher(),
        shell_grammar=BashGrammar(),
        diagnostics=LocalDiagnostics(files, options.settings, env),
        custom_tools=LocalCustomTools(
            home,
            options.workspace,
            env,
            partial(is_trusted, home, options.trust_root or options.workspace),
        ),
        browser=_build_browser(files, options.settings, env),
        image_generator=_build_image_generator(options.settings, home, env),
        mcp=servers.lease(
            options.workspace, options.trust_root, options.front_end_resources.mcp_servers
        )
        if options.settings.mcp_enabled
        else None,
        **_lease_workspace_services(options, files, indexes, checkpoints),
    )


def _build_sandbox_and_files(
    options: ResolvedTaskOptions, home: Path, env: Mapping[str, str]
) -> tuple[Sandbox | None, LocalFiles]:
    """What holds the commands of a task, and its file tools."""
    workspace, scope = options.workspace, options.file_scope
    settings = _add_repository_access(options)
    sandbox = build_sandbox(workspace, home, env, settings, scope.added_directories)
    boundary = build_boundary(workspace, home, env, settings, scope)
    return sandbox, LocalFiles(
        workspace, None if sandbox is None else sandbox.mark_own_write, boundary
    )


def _wrap_files(options: TaskOptions, files: LocalFiles) -> Files:
    """A worktree is nothing that a front end knows of."""
    wrap = options.front_end_resources.wrap_files
    return files if wrap is None or options.trust_root is not None else wrap(files)


def _add_repository_access(options: ResolvedTaskOptions) -> Settings:
    """Commands in a worktree may look at the repository that it belongs to."""
    settings = options.settings
    top = None if options.trust_root is None else find_repository_root(options.trust_root)
    if top is None:
        return settings
    readable = (*settings.sandbox_readable, str(top / ".git"))
    return structs.replace(settings, sandbox_readable=readable)


def _build_mode_providers(
    options: ResolvedTaskOptions, home: Path, env: Mapping[str, str]
) -> ModeProviders | None:
    settings = options.settings
    profiles = {} if options.route.is_explicit else dict(settings.mode_api_configs)
    if settings.condensing_profile:
        profiles[SUMMARY_PROFILE_KEY] = settings.condensing_profile
    if not profiles:
        return None

    def make(name: str) -> Provider:
        known = load_profiles(home)
        chosen = choose_profile(profiles=known, env=env, kinds=PROVIDER_SPECS, profile=name)
        require_known_price(chosen, options.limits)
        return make_provider(chosen, build_http_client(chosen, env))

    return ModeProviders(profiles, make)


def _build_result_validator(options: TaskOptions) -> ResultValidator | None:
    if options.result_schema is None:
        return None
    # Few runs ask for it, and all of them would pay for loading it.
    from joey.engine.result_schema import ResultValidator

    return ResultValidator(options.result_schema, IsolatedSchemaValidator())


def _build_browser(
    files: LocalFiles, settings: Settings, env: Mapping[str, str]
) -> Chromium | None:
    executable = find_chromium(env) if settings.browser_tool_enabled else None
    if executable is None:
        return None
    viewport = parse_viewport(settings.browser_viewport_size)
    return Chromium(executable, viewport, build_page_file_reader(files))


def _lease_workspace_services(
    options: ResolvedTaskOptions,
    files: LocalFiles,
    indexes: ConfiguredIndexPool,
    stores: CheckpointStorePool,
) -> dict[str, Any]:
    """What is kept of a workspace from task to task: too much for a worktree, which soon goes."""
    if options.trust_root is not None:
        return {}
    return {
        "code_index": indexes.lease(files, options.settings),
        "checkpoints": _lease_checkpoints(stores, files.root, options.settings),
    }


def _lease_checkpoints(
    stores: CheckpointStorePool, workspace: Path, settings: Settings
) -> TaskCheckpoints | None:
    if not settings.enable_checkpoints:
        return None
    return stores.lease(
        workspace,
        max_age_days=settings.checkpoint_max_age_days,
        max_megabytes=settings.checkpoint_max_megabytes,
    )


def _build_image_generator(
    settings: Settings, home: Path, env: Mapping[str, str]
) -> ProfileImageGenerator | None:
    if not settings.image_profile:
        return None
    profiles = load_profiles(home)
    chosen = choose_profile(
        profiles=profiles, env=env, kinds=PROVIDER_SPECS, profile=settings.image_profile
    )
    return ProfileImageGenerator(chosen, build_http_client(chosen, env))


def build_page_file_reader(files: Files) -> Callable[[str, bool], Awaitable[bytes | None]]:
    """Read through the workspace like everything else: the browser itself opens none."""

    async def give(path: str, is_approved: bool) -> bytes | None:
        """Files of the workspace that the model may see, and no list of them; and the one that
        was asked for, unless something else has its name by now."""
        try:
            resolved = files.resolve(path)
            if is_approved:
                return await files.read(resolved) if resolved.path == Path(path) else None
            return (
                await files.read(resolved)
                if resolved.is_inside and not resolved.is_ignored
                else None
            )
        except ToolError:
            return None

    return give


class ConfiguredIndexPool:
    def __init__(self, home: Path, env: Mapping[str, str], *, persistent: bool = True) -> None:
        self._home = home
        self._env = env
        self._index_pool = WorkspaceIndexPool(home, persistent=persistent)

    def lease(self, files: LocalFiles, settings: Settings) -> CodeIndex | None:
        if not settings.codebase_index_enabled:
            return None
        embedder = self._build_embedder(settings.embedding_profile)
        return self._index_pool.open(
            files, lambda stop: list_indexable_files(files, stop), embedder
        )

    def _build_embedder(self, name: str) -> Embedder | None:
        """A profile that cannot be used is no reason not to work: searches go by words, and say
        why."""
        if not name:
            return None
        from joey.providers.embeddings import EmbeddingClient

        try:
            profiles = load_profiles(self._home)
            chosen = choose_profile(
                profiles=profiles, env=self._env, kinds=PROVIDER_SPECS, profile=name
            )
            # A provider's usual model is one for chatting.
            chosen = structs.replace(chosen, model=profiles.profiles[name].model)
            return EmbeddingClient(chosen, build_http_client(chosen, self._env))
        except ConfigError as error:
            return _UnusableEmbedder(name, error)


class _UnusableEmbedder:
    """Stands where a model should, and says what is wrong with its profile."""

    def __init__(self, profile: str, error: ConfigError) -> None:
        self._error = error
        self.model_id = f"the profile {profile!r}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise ConfigError(f"The setting `embeddingProfile` cannot be followed. {self._error}")

    async def close(self) -> None:
        """Nothing was opened."""


_protocol_check: type[Embedder] = _UnusableEmbedder


def build_hooks(
    files: LocalFiles,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    trust_root: Path | None = None,
) -> LocalHooks:
    environment = build_command_environment(env)
    return LocalHooks(
        settings.hooks,
        partial(load_project_hooks, files, home, env),
        partial(is_trusted, home, trust_root or files.root),
        HookEnvironment(
            workspace=files.root,
            shell=find_shell(environment.get("PATH")),
            variables=environment,
        ),
    )
