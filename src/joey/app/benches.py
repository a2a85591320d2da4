"""A workbench for one task: adapters chosen by its options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import structs

from joey.app.customs import customs_for
from joey.app.indexes import CodeIndexes
from joey.app.options import check_price, make_options
from joey.app.servers import Servers, is_trusted
from joey.browsers.chromium import Chromium, find_chromium, viewport_size
from joey.config.choose import choose_profile
from joey.config.profiles import load_profiles
from joey.core.settings import Limits, Profile, Route, Settings
from joey.engine.engine import TaskOptions
from joey.engine.mode_providers import ModeProviders
from joey.engine.workbench import Workbench
from joey.errors import ToolError
from joey.extensions.custom_tools import LocalCustomTools
from joey.knowledge.documents import LocalDocuments
from joey.knowledge.outlines import LocalOutlines
from joey.knowledge.problems import LocalProblems
from joey.knowledge.web_pages import WebPages
from joey.ports import Extras, Provider
from joey.providers.http import HttpClient
from joey.providers.kinds import KINDS
from joey.providers.pictures import PictureMaker
from joey.providers.select import make_provider
from joey.terminals.local import LocalTerminal
from joey.terminals.processes import end_marked
from joey.tools.registry import Registry
from joey.workspace.clock import SystemClock
from joey.workspace.environment import LocalEnvironment
from joey.workspace.files import LocalFiles
from joey.workspace.repository import GitRepository
from joey.workspace.search import LocalSearch


def make_bench(
    options: TaskOptions,
    registry: Registry,
    servers: Servers,
    indexes: CodeIndexes,
    home: Path,
    env: Mapping[str, str],
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
    route = _route(options, options.profile)
    others = None if route.chosen else _mode_providers(options.settings, options.limits, home, env)
    return Workbench(
        provider=make_provider(options.profile, HttpClient(environ=env)),
        registry=registry,
        files=files,
        search=search,
        terminal=LocalTerminal(env),
        environment=LocalEnvironment(files, search),
        clock=SystemClock(),
        settings=options.settings,
        limits=options.limits,
        route=route,
        others=others,
        system_prompt=options.system_prompt,
        toolboxes=servers.toolboxes,
        extras=Extras(
            outlines=LocalOutlines(),
            documents=LocalDocuments(files),
            customs=customs_for(files, home, env, options.settings),
            repository=GitRepository(options.workspace),
            pages=WebPages(),
            problems=LocalProblems(files, options.settings, env),
            custom_tools=LocalCustomTools(
                home,
                options.workspace,
                env,
                partial(is_trusted, home, options.workspace),
                end_marked,
            ),
            browser=_browser(files, options.settings, env),
            images=_images(options.settings, home, env),
            mcp=servers.lease(options.workspace) if options.settings.mcp_enabled else None,
            index=indexes.lease(files, options.settings),
        ),
    )


def _route(options: TaskOptions, profile: Profile) -> Route:
    """What the task remembers; a model that was once chosen for it stays so."""
    route = options.route or profile.route
    earlier = options.earlier
    return structs.replace(route, chosen=True) if earlier is not None and earlier.chosen else route


def _mode_providers(
    settings: Settings, limits: Limits, home: Path, env: Mapping[str, str]
) -> ModeProviders | None:
    if not settings.mode_api_configs:
        return None

    def make(name: str) -> Provider:
        profiles = load_profiles(home)
        chosen = choose_profile(profiles=profiles, env=env, kinds=KINDS, profile=name)
        check_price(chosen, limits)
        return make_provider(chosen, HttpClient(environ=env))

    return ModeProviders(settings.mode_api_configs, make)


def _browser(files: LocalFiles, settings: Settings, env: Mapping[str, str]) -> Chromium | None:
    executable = find_chromium(env) if settings.browser_tool_enabled else None
    if executable is None:
        return None

    def shows(path: str) -> bool:
        """Pages get the files of the workspace that the model may see, and no list of them."""
        try:
            place = files.resolve(path)
        except ToolError:
            return False
        return place.inside and not place.ignored and place.path.is_file()

    return Chromium(executable, viewport_size(settings.browser_viewport_size), shows)


def _images(settings: Settings, home: Path, env: Mapping[str, str]) -> PictureMaker | None:
    if not settings.image_profile:
        return None
    profiles = load_profiles(home)
    chosen = choose_profile(profiles=profiles, env=env, kinds=KINDS, profile=settings.image_profile)
    return PictureMaker(chosen, HttpClient(environ=env))
