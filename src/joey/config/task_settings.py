"""Settings that were given to one task, laid over the user's when the task is opened again.

Instructions, limits of size and the like are kept. What they permit only counts where the user's
settings permit it as well: they were given at another time, and may come from another machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from joey.config.documents import convert_document
from joey.config.project_settings import ADDED, LOWERED, OFF
from joey.core.network_hosts import narrowed
from joey.core.settings import Settings

PRIVATE = frozenset(
    {"hooks", "diagnosticCheckers", "checkpointMaxAgeDays", "checkpointMaxMegabytes"}
)
"""What runs programs or deletes files: kept outside the task folder (see `TaskSecrets`)."""
_WHERE = Path("configuration")
_SANDBOX = ("off", "auto", "required")
_ANYTHING = "*"


def with_configuration(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings with these laid over them; what is denied already stays denied, also to rules
    that are longer than the one that denies it.

    Raises:
        ConfigError: naming the key that does not fit.
    """
    laid_over = convert_document({**msgspec.to_builtins(settings), **given}, Settings, _WHERE)
    denials = [_denial(command) for command in settings.denied_commands]
    allowed = tuple(
        entry
        for entry in laid_over.allowed_commands
        if entry in settings.allowed_commands or not any(each.search(entry) for each in denials)
    )
    denied = _union(settings.denied_commands, laid_over.denied_commands)
    return structs.replace(laid_over, denied_commands=denied, allowed_commands=allowed)


def _denial(command: str) -> re.Pattern[str]:
    """Finds a denied command in a rule, wherever it is there."""
    words = r"\s+".join(map(re.escape, command.split()))
    return re.compile(rf"(?<![\w-]){words}(?![\w-])", re.IGNORECASE)


def reopened_settings(
    user: Settings, kept: Mapping[str, Any], private: Mapping[str, Any]
) -> Settings:
    """`kept` comes from the task folder, `private` from outside of it.

    Raises:
        ConfigError
    """
    portable = {name: value for name, value in kept.items() if name not in PRIVATE}
    task = with_configuration(user, {**portable, **private})
    strict = {field: rule(getattr(user, field), getattr(task, field)) for field, rule in _STRICTER}
    return structs.replace(task, **strict)


def _union(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _allowed_by_both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Only rules that are in both: a longer one is no narrower, since it may name what is risky."""
    if _ANYTHING in one:
        return other
    return one if _ANYTHING in other else _common(one, other)


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(entry for entry in one if entry in other)


def _lower(one: float | None, other: float | None) -> float | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


def _lower_but_zero(one: int, other: int) -> int:
    """0 stands for no limit."""
    return min(filter(None, (one, other)), default=0)


def _stricter_sandbox(one: str, other: str) -> str:
    return max(one, other, key=_SANDBOX.index)


def _both(one: bool, other: bool) -> bool:
    return one and other


_STRICTER: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    *((field, _both) for field in OFF.values()),
    *((field, _union) for field in ADDED.values()),
    *((field, _lower) for field in LOWERED.values()),
    ("allowed_commands", _allowed_by_both),
    ("allowed_mcp_tools", _allowed_by_both),
    ("sandbox", _stricter_sandbox),
    ("sandbox_network", narrowed),
    ("sandbox_readable", _common),
    ("sandbox_writable", _common),
    ("sandbox_max_processes", _lower_but_zero),
    ("sandbox_max_memory_mb", _lower_but_zero),
    ("sandbox_max_file_mb", _lower_but_zero),
    ("sandbox_max_cpu_seconds", _lower_but_zero),
)
