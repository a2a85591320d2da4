"""joey: a coding agent that runs without an editor.

Every public name is imported at its first use, so that `import joey` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from joey.app import make_options, open_engine
    from joey.client.remote import RemoteEngine
    from joey.client.task_tree_events import follow_task_tree
    from joey.core.events import Event
    from joey.core.settings import Limits, Profile, Settings
    from joey.core.task_types import Answer, AskKind, Response
    from joey.engine.asks import Unattended
    from joey.engine.engine import Engine, TaskOptions
    from joey.engine.outcomes import Aborted, Completed, Ending, Failed
    from joey.engine.task import Task
    from joey.errors import ConfigError, JoeyError, ProviderError, StoreError, UserError

_MODULE_BY_NAME = {
    "Aborted": "joey.engine.outcomes",
    "Answer": "joey.core.task_types",
    "AskKind": "joey.core.task_types",
    "Completed": "joey.engine.outcomes",
    "ConfigError": "joey.errors",
    "Ending": "joey.engine.outcomes",
    "Engine": "joey.engine.engine",
    "Event": "joey.core.events",
    "Failed": "joey.engine.outcomes",
    "JoeyError": "joey.errors",
    "Limits": "joey.core.settings",
    "Profile": "joey.core.settings",
    "ProviderError": "joey.errors",
    "RemoteEngine": "joey.client.remote",
    "Response": "joey.core.task_types",
    "Settings": "joey.core.settings",
    "StoreError": "joey.errors",
    "Task": "joey.engine.task",
    "TaskOptions": "joey.engine.engine",
    "Unattended": "joey.engine.asks",
    "UserError": "joey.errors",
    "follow_task_tree": "joey.client.task_tree_events",
    "make_options": "joey.app",
    "open_engine": "joey.app",
}

__all__ = [
    "Aborted",
    "Answer",
    "AskKind",
    "Completed",
    "ConfigError",
    "Ending",
    "Engine",
    "Event",
    "Failed",
    "JoeyError",
    "Limits",
    "Profile",
    "ProviderError",
    "RemoteEngine",
    "Response",
    "Settings",
    "StoreError",
    "Task",
    "TaskOptions",
    "Unattended",
    "UserError",
    "__version__",
    "follow_task_tree",
    "make_options",
    "open_engine",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'joey' has no attribute {name!r}")
    return getattr(import_module(_MODULE_BY_NAME[name]), name)
