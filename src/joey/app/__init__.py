"""Composition root and application services: the only package that knows all adapters.

Names are imported on first use, so a program that only reads a setting does not load an engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joey.app.application import Application
    from joey.app.customizations import open_customizations
    from joey.app.engine_factory import (
        create_shared_store,
        open_engine,
        open_shared_store,
        open_store,
        open_task_index,
        read_shared_store_state,
    )
    from joey.app.options import make_options
    from joey.config.home import resolve_joey_home

_EXPORT_MODULES = {
    "Application": "joey.app.application",
    "resolve_joey_home": "joey.config.home",
    "make_options": "joey.app.options",
    "open_customizations": "joey.app.customizations",
    "open_engine": "joey.app.engine_factory",
    "create_shared_store": "joey.app.engine_factory",
    "open_shared_store": "joey.app.engine_factory",
    "open_store": "joey.app.engine_factory",
    "read_shared_store_state": "joey.app.engine_factory",
    "open_task_index": "joey.app.engine_factory",
}

__all__ = [
    "Application",
    "create_shared_store",
    "make_options",
    "open_customizations",
    "open_engine",
    "open_shared_store",
    "open_store",
    "open_task_index",
    "read_shared_store_state",
    "resolve_joey_home",
]


def __getattr__(name: str) -> object:
    if name not in _EXPORT_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORT_MODULES[name]), name)
