"""The composition root: settings become adapters, adapters become a workbench, and the engine
puts tasks on it. The one package that knows everybody."""

from joey.app.customs import open_customs
from joey.app.opening import open_engine, open_store, open_task_index
from joey.app.options import make_options
from joey.app.setup import Setup
from joey.config.home import joey_home

__all__ = [
    "Setup",
    "joey_home",
    "make_options",
    "open_customs",
    "open_engine",
    "open_store",
    "open_task_index",
]
