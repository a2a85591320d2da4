"""joey: a coding agent that runs without an editor.

Every public name is imported at its first use, so that `import joey` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from joey.app import make_options, open_engine
    from joey.app.single_run import RunFlags, TaskResult, run, run_sync
    from joey.batch.fleet import open_fleet
    from joey.batch.fleet_batches import Batch, Fleet, ItemEnded, ItemStarted, Spent
    from joey.batch.orders import Order
    from joey.batch.results import ResultLine
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

_NAMES_BY_MODULE = {
    "joey.app": ("make_options", "open_engine"),
    "joey.app.single_run": ("RunFlags", "TaskResult", "run", "run_sync"),
    "joey.batch.fleet": ("open_fleet",),
    "joey.batch.fleet_batches": ("Batch", "Fleet", "ItemEnded", "ItemStarted", "Spent"),
    "joey.batch.orders": ("Order",),
    "joey.batch.results": ("ResultLine",),
    "joey.client.remote": ("RemoteEngine",),
    "joey.client.task_tree_events": ("follow_task_tree",),
    "joey.core.events": ("Event",),
    "joey.core.settings": ("Limits", "Profile", "Settings"),
    "joey.core.task_types": ("Answer", "AskKind", "Response"),
    "joey.engine.asks": ("Unattended",),
    "joey.engine.engine": ("Engine", "TaskOptions"),
    "joey.engine.outcomes": ("Aborted", "Completed", "Ending", "Failed"),
    "joey.engine.task": ("Task",),
    "joey.errors": ("ConfigError", "JoeyError", "ProviderError", "StoreError", "UserError"),
}

__all__ = [
    "Aborted",
    "Answer",
    "AskKind",
    "Batch",
    "Completed",
    "ConfigError",
    "Ending",
    "Engine",
    "Event",
    "Failed",
    "Fleet",
    "ItemEnded",
    "ItemStarted",
    "JoeyError",
    "Limits",
    "Order",
    "Profile",
    "ProviderError",
    "RemoteEngine",
    "Response",
    "ResultLine",
    "RunFlags",
    "Settings",
    "Spent",
    "StoreError",
    "Task",
    "TaskOptions",
    "TaskResult",
    "Unattended",
    "UserError",
    "__version__",
    "follow_task_tree",
    "make_options",
    "open_engine",
    "open_fleet",
    "run",
    "run_sync",
]


def __getattr__(name: str) -> object:
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'joey' has no attribute {name!r}")
