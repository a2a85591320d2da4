"""Construction of a task's runtime: adapters chosen by its options.

Code indexes are shared by the tasks of an engine that work in the same workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from joey.app import features
from joey.app.customizations import is_trusted, load_customizations, load_project_hooks
from joey.app.known_secrets import build_http_client
from joey.app.mcp_pool import McpServerPool
from joey.app.model_choice import find_key_source, open_model_catalog, require_known_price
from joey.app.sandbox import build_boundary, build_sandbox, find_likely_sandbox
from joey.config.config_store import LiveNetwork
from joey.config.model_memory import ServedModelStore, ToolSupportStore
from joey.config.profiles import choose_profile, load_profiles
from joey.config.rule_store import UserRuleStore
from joey.content.code_index import WorkspaceIndexPool
from joey.content.diagnostics import LocalDiagnostics
from joey.content.isolated_workers import (
    IsolatedDocumentReader,
    IsolatedSchemaValidator,
    WebPageFetcher,
)
from joey.content.outlines import OutlineExtractor
from joey.core.permissions.hosts import NetworkOrigin
from joey.core.permissions.policy import FILTERING_LEVELS
from joey.core.settings import Profile, Settings
from joey.engine.engine import ResolvedTaskOptions, TaskOptions
from joey.engine.runtime import SUMMARY_PROFILE_KEY, ModeProviders, TaskRuntime
from joey.execution.bash_grammar import BashGrammar
from joey.execution.command_environment import build_command_environment
from joey.execution.hooks import HookEnvironment, LocalHooks
from joey.execution.terminal import LocalTerminal, find_shell
from joey.ports.content import CodeIndex
from joey.ports.execution import Sandbox
from joey.ports.extensions import RuleStore
from joey.ports.model import Provider, RequestRecorder
from joey.ports.tool_context import Capabilities
from joey.ports.workspace import Files
from joey.providers.catalog import PROVIDER_SPECS
from joey.providers.factory import make_provider
from joey.tools.registry import Registry
from joey.workspace.checkpoints.pool import CheckpointStorePool, TaskCheckpoints
from joey.workspace.environment import LocalEnvironment, SystemClock
from joey.workspace.files import LocalFiles
from joey.workspace.git.process import find_repository_root
from joey.workspace.git.repository import GitRepository
from joey.workspace.listing import list_indexable_files
from joey.workspace.search import LocalSearch

if TYPE_CHECKING:
    from joey.app.request_recording import TaskRequestRecorder
    from joey.engine.result_schema import ResultValidator


class CapabilityFactory:
    """Builds the capabilities of the tasks of one engine, and holds the pools that they share."""

    def __init__(self, home: Path, env: Mapping[str, str], *, persistent: bool) -> None:
        """Without `persistent`, nothing is kept under `home`, and subtasks get no worktrees."""
        self._home = home
        self._env = env
        self._is_persistent = persistent
        self.served_models = ServedModelStore(home) if persistent else None
        self.server_pool = McpServerPool(home, env)
        self.tool_support = ToolSupportStore(home) if persistent else None
        self._index_pool = WorkspaceIndexPool(home, persistent=persistent)
        self._checkpoint_pool = CheckpointStorePool(home, persistent=persistent)
        self._request_recorders: list[TaskRequestRecorder] = []

    async def close(self) -> None:
        """Close the pools after the last task is closed."""
        for recorder in self._request_recorders:
            await recorder.close()

    def get_request_recorder(self, settings: Settings, profile: Profile) -> RequestRecorder | None:
        """Return the recorder that all tasks share, or a new one if that failed."""
        if not settings.record_requests or not self._is_persistent:
            return None
        if not self._request_recorders or self._request_recorders[-1].failure:
            from joey.app.request_recording import TaskRequestRecorder

            self._request_recorders.append(TaskRequestRecorder(self._home))
        self._request_recorders[-1].add_profile(profile)
        return self._request_recorders[-1]

    def build(self, options: ResolvedTaskOptions, files: LocalFiles) -> Capabilities:
        home, env, settings = self._home, self._env, options.settings
        return Capabilities(
            outlines=OutlineExtractor(),
            documents=IsolatedDocumentReader(files),
            customizations=load_customizations(files, home, env, settings, options.trust_root),
            hooks=build_hooks(files, home, env, settings, options.trust_root),
            rule_store=UserRuleStore(home, options.trust_root or options.workspace),
            tool_support=self.tool_support,
            repository=GitRepository(options.workspace),
            worktrees=features.open_worktrees(files.root, home) if self._is_persistent else None,
            page_fetcher=WebPageFetcher(),
            schema_validator=IsolatedSchemaValidator(),
            shell_grammar=BashGrammar(),
            diagnostics=LocalDiagnostics(files, settings, env),
            custom_tools=features.open_custom_tools(
                options.workspace, options.trust_root or options.workspace, home, env
            ),
            browser=features.open_browser(files, settings, env),
            image_generator=features.open_image_generator(settings, home, env),
            mcp=self.server_pool.lease(
                options.workspace, options.trust_root, options.front_end_resources.mcp_servers
            )
            if settings.mcp_enabled
            else None,
            # Not worth it for a short-lived worktree.
            code_index=None if options.trust_root else self._lease_code_index(files, settings),
            checkpoints=None if options.trust_root else self._lease_checkpoints(files, settings),
        )

    def _lease_code_index(self, files: LocalFiles, settings: Settings) -> CodeIndex | None:
        if not settings.codebase_index_enabled:
            return None
        embedder = features.open_embedder(settings, self._home, self._env)
        return self._index_pool.open(
            files, lambda stop: list_indexable_files(files, stop), embedder
        )

    def _lease_checkpoints(self, files: LocalFiles, settings: Settings) -> TaskCheckpoints | None:
        if not settings.enable_checkpoints:
            return None
        return self._checkpoint_pool.lease(
            files.root,
            max_age_days=settings.checkpoint_max_age_days,
            max_megabytes=settings.checkpoint_max_megabytes,
        )


def build_runtime(
    options: ResolvedTaskOptions,
    registry: Registry,
    capabilities: CapabilityFactory,
    home: Path,
    env: Mapping[str, str],
) -> TaskRuntime:
    sandbox, files = _build_sandbox_and_files(options, home, env)
    search = LocalSearch(files)
    recorder = capabilities.get_request_recorder(options.settings, options.profile)
    found_capabilities = capabilities.build(options, files)
    return TaskRuntime(
        provider=make_provider(
            options.profile,
            build_http_client(options.profile, env, recorder),
            options.route,
            overrides=open_model_catalog(home),
            served_models=capabilities.served_models,
            refusal_memory=capabilities.tool_support,
            key_source=find_key_source(options.profile, env),
        ),
        tool_registry=registry,
        files=_wrap_files(options, files),
        search=search,
        terminal=LocalTerminal(env, sandbox=sandbox),
        environment=LocalEnvironment(files, search),
        clock=SystemClock(),
        settings=options.settings,
        network=_build_network(options, home, found_capabilities.rule_store),
        restrict_settings=options.restrict_settings or (lambda settings: settings),
        find_sandbox=partial(find_likely_sandbox, options.settings),
        file_scope=options.file_scope,
        limits=options.limits,
        route=options.route,
        base_url=options.profile.base_url,
        request_gate=options.request_gate,
        request_recorder=recorder,
        mode_providers=_build_mode_providers(options, capabilities, home, env),
        system_prompt=options.system_prompt,
        result_validator=_build_result_validator(options),
        tool_set_cache=capabilities.server_pool.tool_set_cache,
        capabilities=found_capabilities,
    )


def _build_network(
    options: ResolvedTaskOptions, home: Path, rule_store: RuleStore | None
) -> LiveNetwork:
    settings = options.settings
    return LiveNetwork(
        home,
        settings.sandbox_network,
        options.network_origin or NetworkOrigin(),
        lambda: () if rule_store is None else _read_hosts(rule_store),
        lambda: find_likely_sandbox(settings) in FILTERING_LEVELS,
    )


def _read_hosts(rule_store: RuleStore) -> tuple[str, ...]:
    rules = rule_store.read_directory_rules()
    return tuple(rule.text for rule in rules if rule.setting == "sandboxNetwork")


def _build_sandbox_and_files(
    options: ResolvedTaskOptions, home: Path, env: Mapping[str, str]
) -> tuple[Sandbox | None, LocalFiles]:
    """Build the sandbox of the task's commands, and its file tools."""
    workspace, scope = options.workspace, options.file_scope
    settings = _add_repository_access(options)
    sandbox = build_sandbox(workspace, home, env, settings, scope.added_directories)
    boundary = build_boundary(workspace, home, env, settings, scope)
    return sandbox, LocalFiles(
        workspace, None if sandbox is None else sandbox.mark_own_write, boundary
    )


def _wrap_files(options: TaskOptions, files: LocalFiles) -> Files:
    """Wrap the files unless the task has a worktree, which front ends do not know."""
    wrap = options.front_end_resources.wrap_files
    return files if wrap is None or options.trust_root is not None else wrap(files)


def _add_repository_access(options: ResolvedTaskOptions) -> Settings:
    """Give commands in a worktree read access to its repository."""
    settings = options.settings
    top = None if options.trust_root is None else find_repository_root(options.trust_root)
    if top is None:
        return settings
    readable = (*settings.sandbox_readable, str(top / ".git"))
    return structs.replace(settings, sandbox_readable=readable)


def _build_mode_providers(
    options: ResolvedTaskOptions,
    capabilities: CapabilityFactory,
    home: Path,
    env: Mapping[str, str],
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
        require_known_price(chosen, options.limits, home)
        return make_provider(
            chosen,
            build_http_client(chosen, env, capabilities.get_request_recorder(settings, chosen)),
            overrides=open_model_catalog(home),
            served_models=capabilities.served_models,
            refusal_memory=capabilities.tool_support,
            key_source=find_key_source(chosen, env),
        )

    return ModeProviders(profiles, make)


def _build_result_validator(options: TaskOptions) -> ResultValidator | None:
    if options.result_schema is None:
        return None
    # Loaded here because few runs need it.
    from joey.engine.result_schema import ResultValidator

    return ResultValidator(options.result_schema, IsolatedSchemaValidator())


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
