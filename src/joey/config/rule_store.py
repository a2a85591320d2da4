"""Store of the rules that "always" answers add: for one directory, or in the user's settings.

Rules of a directory are in `permissions.json` in the user's home, by its real path: a repository
can neither contain such rules nor change them. A file that cannot be read holds no rules.
"""

from __future__ import annotations

import logging
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from joey.config.config_store import ConfigStore
from joey.config.json_documents import load_document, write_document
from joey.config.settings import SETTINGS_FILE
from joey.core.permissions.hosts import parse_host
from joey.core.permissions.policy import PersistentRule, add_rule, would_enable_only_this_rule
from joey.core.task_types import RuleScope
from joey.errors import ConfigError
from joey.ports.extensions import RuleStore
from joey.system.files import FileFingerprint, read_fingerprint
from joey.system.locks import lock_for_update

if TYPE_CHECKING:
    from joey.core.permissions.granted_rules import GrantedRule, RuleSetting

log = logging.getLogger(__name__)

PERMISSIONS_FILE = "permissions.json"
_SWITCHES = {"allowedCommands": "alwaysAllowExecute", "allowedMcpTools": "alwaysAllowMcp"}


class _StoredRule(Struct, frozen=True, rename="camel", omit_defaults=True):
    setting: str
    text: str
    by: str = ""
    task_id: str = ""
    added_at: int = 0


class _PermissionsDocument(Struct, frozen=True):
    directories: dict[str, tuple[_StoredRule, ...]] = {}


class UserRuleStore:
    def __init__(self, home: Path, workspace: Path) -> None:
        self._directory = str(workspace.resolve())
        self._file = home / PERMISSIONS_FILE
        self._settings_file = home / SETTINGS_FILE
        self._config_store = ConfigStore(home)
        self._fingerprint: FileFingerprint = ()  # not read yet
        self._rules: tuple[GrantedRule, ...] = ()

    # Rules of the directory

    def read_directory_rules(self) -> tuple[GrantedRule, ...]:
        fingerprint = read_fingerprint(self._file)
        if fingerprint != self._fingerprint:
            try:
                self._rules = self._load_directory_rules()
            except ConfigError as error:
                log.warning("ignored the rules of the directory: %s", error)
                self._rules = ()
            self._fingerprint = fingerprint
        return self._rules

    def _load_directory_rules(self) -> tuple[GrantedRule, ...]:
        if not (stored := self._load_document().get(self._directory, ())):
            return ()
        from joey.core.permissions.granted_rules import GrantedRule  # few directories have any

        return tuple(
            GrantedRule(
                rule.setting,  # type: ignore[arg-type]
                rule.text,
                RuleScope.DIRECTORY,
                rule.by,
                rule.task_id,
                rule.added_at,
            )
            for rule in stored
            if _is_valid(rule)
        )

    def _load_document(self) -> dict[str, tuple[_StoredRule, ...]]:
        return dict(load_document(self._file, _PermissionsDocument).directories)

    def _change_directory_rules(
        self, *, removed: tuple[str, str] | None = None, added: _StoredRule | None = None
    ) -> bool:
        """Change the rules of a directory; False if nothing changed. Raises ConfigError."""
        try:
            self._directory.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                "no rule can be stored for a directory whose name is not UTF-8"
            ) from error
        with lock_for_update(self._file):
            directories = self._load_document()
            before = directories.get(self._directory, ())
            dropped = removed if added is None else (added.setting, added.text)
            after = [rule for rule in before if (rule.setting, rule.text) != dropped]
            if added is not None:
                after.append(added)
            if tuple(after) == before:
                return False
            kept = {**directories, self._directory: tuple(after)}
            document = {"directories": {name: rules for name, rules in kept.items() if rules}}
            write_document(self._file, msgspec.to_builtins(document))
        self._fingerprint = ()
        return True

    # Rules of the settings

    def would_enable_only(self, rule: PersistentRule) -> bool:
        try:
            return would_enable_only_this_rule(rule, self._config_store.load_settings())
        except ConfigError:
            return False  # an invalid file is not written to

    def _build_changed_settings(self, rule: PersistentRule) -> dict[str, Any]:
        if not self.would_enable_only(rule):
            raise ConfigError(
                f"{self._settings_file} was changed by another program; `{rule.text}` was not "
                f"added. Try again."
            )
        settings = add_rule(self._config_store.load_settings(), rule)
        if rule.setting == "allowedCommands":
            return {"alwaysAllowExecute": True, "allowedCommands": settings.allowed_commands}
        return {"alwaysAllowMcp": True, "allowedMcpTools": settings.allowed_mcp_tools}

    def _list_settings_rules(self) -> list[GrantedRule]:
        from joey.core.permissions.granted_rules import GrantedRule

        settings = self._config_store.load_settings()
        rules: list[GrantedRule] = []
        if settings.always_allow_execute:
            texts = settings.allowed_commands
            rules += (GrantedRule("allowedCommands", each, RuleScope.EVERYWHERE) for each in texts)
        if settings.always_allow_mcp:
            texts = settings.allowed_mcp_tools
            rules += (GrantedRule("allowedMcpTools", each, RuleScope.EVERYWHERE) for each in texts)
        network = settings.sandbox_network
        hosts = (network,) if network != "off" and isinstance(network, str) else network
        if isinstance(hosts, tuple):
            rules += (GrantedRule("sandboxNetwork", each, RuleScope.EVERYWHERE) for each in hosts)
        if settings.always_allow_write:
            text = "edits in every workspace"
            rules.append(GrantedRule("alwaysAllowWrite", text, RuleScope.EVERYWHERE))
        return rules

    def _remove_settings_rule(self, setting: RuleSetting, text: str) -> bool:
        is_removed = False

        def compute_values() -> dict[str, Any]:
            nonlocal is_removed
            is_removed = (setting, text) in {
                (rule.setting, rule.text) for rule in self._list_settings_rules()
            }
            settings = self._config_store.load_settings()
            match setting:
                case "alwaysAllowWrite":
                    return {setting: None} if is_removed else {}
                case "allowedCommands":
                    left = settings.allowed_commands
                case "allowedMcpTools":
                    left = settings.allowed_mcp_tools
                case "sandboxNetwork":
                    network = settings.sandbox_network
                    left = () if isinstance(network, str) else network
            left = tuple(each for each in left if each != text)
            if not is_removed:
                return {}
            if left or setting == "sandboxNetwork":
                return {setting: left or None}
            # Without rules the switch has no effect now, and would only surprise later.
            return {setting: None, _SWITCHES[setting]: None}

        self._config_store.update_settings_with(compute_values)
        return is_removed

    # Both

    def add(
        self,
        rule: PersistentRule,
        scope: RuleScope = RuleScope.EVERYWHERE,
        *,
        by: str = "",
        task_id: str = "",
    ) -> None:
        if scope is RuleScope.EVERYWHERE:
            self._config_store.update_settings_with(lambda: self._build_changed_settings(rule))
        else:
            self._add_directory_rule(rule.setting, rule.text, by, task_id)

    def add_host(self, host: str, *, by: str = "", task_id: str = "") -> None:
        self._add_directory_rule("sandboxNetwork", host, by, task_id)

    def _add_directory_rule(self, setting: str, text: str, by: str, task_id: str) -> None:
        rule = _StoredRule(setting, text, by, task_id, int(time() * 1000))
        self._change_directory_rules(added=rule)

    def list_rules(self) -> tuple[GrantedRule, ...]:
        return (*self._load_directory_rules(), *self._list_settings_rules())

    def revoke(self, setting: RuleSetting, text: str, scope: RuleScope) -> bool:
        if scope is RuleScope.DIRECTORY:
            return self._change_directory_rules(removed=(setting, text))
        return scope is RuleScope.EVERYWHERE and self._remove_settings_rule(setting, text)


def _is_valid(rule: _StoredRule) -> bool:
    """Check a rule of a directory: the file may have been edited."""
    if (
        rule.setting not in ("allowedCommands", "allowedMcpTools", "sandboxNetwork")
        or not rule.text
    ):
        return False
    if rule.setting != "sandboxNetwork":
        return True
    try:
        parse_host(rule.text)
    except ValueError as error:
        log.warning("ignored a host of a directory: %s", error)
        return False
    return True


_protocol_check: type[RuleStore] = UserRuleStore
