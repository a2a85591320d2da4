"""Orders: what a worker is asked to do with the items of a batch, within the worker's ceiling."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.app.options import PermissionFlags, check_stored_workspace, make_options
from joey.batch.items import Item, WorkspaceKind
from joey.config.home import resolve_home_and_env
from joey.config.settings import DISABLEABLE_FIELDS, LOWERABLE_FIELDS, load_settings
from joey.core.models import ToolProtocol
from joey.core.path_access import FileScope
from joey.core.permissions.commands import judge_command
from joey.core.permissions.hosts import NetworkChoice, NetworkOrigin, intersect_hosts
from joey.core.permissions.policy import ALLOW_ALL_RULE, Allow
from joey.core.settings import Limits, Settings
from joey.engine.asks import AnswerPolicy
from joey.engine.engine import ResolvedTaskOptions
from joey.errors import ConfigError, WorkspaceError

ORDER_FORMAT = 1
"""Raised when a worker of an older version could misunderstand an order."""

_SWITCHES = tuple(DISABLEABLE_FIELDS.values())
_RULE_LISTS = ("allowed_commands", "allowed_mcp_tools")
_DENIAL_LISTS = ("denied_commands", "disabled_tools")


class Order(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What is done with each item; the item's own fields take precedence."""

    prompt: str | None = None
    """A template: `{name}` is a field of the item."""
    repo: str | None = None
    ref: str | None = None
    setup: str | None = None
    check: str | None = None
    workspace: WorkspaceKind = WorkspaceKind.CLONE
    limits: Limits = Limits()
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    profile: str | None = None
    mode: str | None = None
    protocol: str | None = None
    schema: dict[str, Any] | None = None
    """A JSON schema that results must match."""
    yes: bool = False
    require_approval: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_writes: bool = False
    no_sandbox: bool = False
    network: NetworkChoice | None = None
    add_dirs: tuple[str, ...] = ()

    def build_permission_flags(self) -> PermissionFlags:
        names = PermissionFlags.__struct_fields__
        return PermissionFlags(**{name: getattr(self, name) for name in names})


class Ceiling(Struct, frozen=True):
    """The most that a worker grants to an order: everything, or what these settings grant."""

    settings: Settings | None = None
    """None allows everything, including running without a sandbox."""

    def apply(self, options: ResolvedTaskOptions) -> ResolvedTaskOptions:
        if self.settings is None:
            return options
        narrowed = narrow_settings(options.settings, self.settings)
        origin = structs.replace(options.network_origin or NetworkOrigin(), is_pinned=True)
        return structs.replace(
            options,
            settings=narrowed,
            restrict_settings=partial(narrow_settings, most=self.settings),
            network_origin=origin,
            file_scope=FileScope(),
        )

    def check_item(self, order: Order, item: Item) -> None:
        """Raises ConfigError if the item's own commands exceed the ceiling."""
        if self.settings is None:
            return
        self.check(order)
        if item.repo is not None:
            _check_directory(Path(item.repo))
        for command in (item.setup, item.check):
            if command is not None and not _may_run(command, self.settings):
                raise ConfigError(
                    f"This worker's settings do not allow the item's command `{command}`. Allow it"
                    " there (alwaysAllowExecute, allowedCommands), or start the worker with"
                    " --may all."
                )

    def check(self, order: Order) -> None:
        """Raises ConfigError if the order has an address that the worker's key would be sent to."""
        if self.settings is not None and order.base_url is not None:
            raise ConfigError(
                f"The item names the address {order.base_url}, but this worker sends its keys "
                f"only to addresses in its own profiles. Use a profile, or start the worker with "
                f"--may all."
            )


def _check_directory(directory: Path) -> None:
    """Raises ConfigError for a directory that may hold keys or start-up files of the worker's
    user."""
    home, env = resolve_home_and_env()
    try:
        check_stored_workspace(directory, home, env)
    except WorkspaceError as error:
        raise ConfigError(
            f"This worker refuses to work in {directory}, which may hold the user's keys and "
            f"start-up files. To allow it, start the worker with --may all."
        ) from error


def _may_run(command: str, settings: Settings) -> bool:
    if not (settings.auto_approval_enabled and settings.always_allow_execute):
        return False
    verdict = judge_command(command, settings.allowed_commands, settings.denied_commands)
    return isinstance(verdict, Allow)


def load_ceiling(name: str | None) -> Ceiling:
    """Load the ceiling that `--may` names: `all`, a settings file, or by default the worker's own
    settings. Raises ConfigError."""
    if name == "all":
        return Ceiling()
    if name is None:
        return Ceiling(load_settings(resolve_home_and_env()[0]))
    try:
        return Ceiling(msgspec.json.decode(Path(name).read_bytes(), type=Settings))
    except OSError as error:
        raise ConfigError(f"--may {name}: it cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"--may {name} is not a settings file: {error}.") from error


def narrow_settings(wanted: Settings, most: Settings) -> Settings:
    """Remove every permission from the settings that `most` does not grant."""
    changes: dict[str, Any] = {
        name: getattr(wanted, name) and getattr(most, name) for name in _SWITCHES
    }
    for name in _RULE_LISTS:
        changes[name] = _narrow_rules(getattr(wanted, name), getattr(most, name))
    for name in _DENIAL_LISTS:
        changes[name] = tuple(dict.fromkeys((*getattr(wanted, name), *getattr(most, name))))
    for name in LOWERABLE_FIELDS.values():
        limits = [each for each in (getattr(wanted, name), getattr(most, name)) if each is not None]
        changes[name] = min(limits, default=None)
    changes["sandbox_network"] = intersect_hosts(wanted.sandbox_network, most.sandbox_network)
    if most.sandbox == "required" or wanted.sandbox == "off":
        changes["sandbox"] = most.sandbox
    return structs.replace(wanted, **changes)


def _narrow_rules(wanted: tuple[str, ...], most: tuple[str, ...]) -> tuple[str, ...]:
    if ALLOW_ALL_RULE in most:
        return wanted
    if ALLOW_ALL_RULE in wanted:
        return most
    return tuple(rule for rule in wanted if rule in most)


def merge_limits(order: Limits, item: Limits) -> Limits:
    """Merge limits; the item's own take precedence."""
    named = {
        name: value
        for name in Limits.__struct_fields__
        if (value := getattr(item, name)) is not None
    }
    return structs.replace(order, **named)


def build_task_options(
    order: Order,
    item: Item,
    workspace: Path,
    ceiling: Ceiling,
    policy: AnswerPolicy,
    env: dict[str, str],
) -> ResolvedTaskOptions:
    """Build the options of an item's task from the worker's files and the order. Raises
    ConfigError, WorkspaceError."""
    ceiling.check(order)
    options = make_options(
        workspace=workspace,
        env=env,
        provider=order.provider,
        model=order.model,
        base_url=order.base_url,
        profile=order.profile,
        mode=order.mode,
        protocol=ToolProtocol(order.protocol) if order.protocol else None,
        limits=merge_limits(order.limits, item.limits),
        policy=policy,
        **structs.asdict(order.build_permission_flags()),
    )
    return ceiling.apply(options)
