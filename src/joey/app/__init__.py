"""The composition root: settings become adapters, adapters become a workbench, and the engine
puts tasks on it. The one package that knows everybody.

The names here are imported when they are first used: who only asks for the value of a setting
does not wait for an engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joey.app.customs import open_customs
    from joey.app.opening import open_engine, open_store, open_task_index
    from joey.app.options import make_options
    from joey.app.setup import Setup
    from joey.config.home import joey_home

_HOMES = {
    "Setup": "joey.app.setup",
    "joey_home": "joey.config.home",
    "make_options": "joey.app.options",
    "open_customs": "joey.app.customs",
    "open_engine": "joey.app.opening",
    "open_store": "joey.app.opening",
    "open_task_index": "joey.app.opening",
}

__all__ = [
    "Setup",
    "joey_home",
    "make_options",
    "open_customs",
    "open_engine",
    "open_store",
    "open_task_index",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
