"""Rules that a person has added by an answer, written into their `settings.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joey.config.preferences import Preferences
from joey.config.settings import SETTINGS
from joey.core.permissions.standing import StandingRule, adds_nothing_else, with_rule
from joey.errors import ConfigError
from joey.ports.extensions import Rulebook


class SettingsRulebook:
    def __init__(self, home: Path) -> None:
        self._file = home / SETTINGS
        self._preferences = Preferences(home)

    def takes(self, rule: StandingRule) -> bool:
        try:
            return adds_nothing_else(rule, self._preferences.settings())
        except ConfigError:
            return False  # nothing is written into a file that is not understood

    def add(self, rule: StandingRule) -> None:
        self._preferences.revise_settings(lambda: self._values_with(rule))

    def _values_with(self, rule: StandingRule) -> dict[str, Any]:
        if not self.takes(rule):
            raise ConfigError(
                f"{self._file} was changed meanwhile; `{rule.text}` was not added to it."
            )
        settings = with_rule(self._preferences.settings(), rule)
        if rule.setting == "allowedCommands":
            return {"alwaysAllowExecute": True, "allowedCommands": settings.allowed_commands}
        return {"alwaysAllowMcp": True, "allowedMcpTools": settings.allowed_mcp_tools}


_fits: type[Rulebook] = SettingsRulebook
