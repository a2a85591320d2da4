"""The optional libraries of batches.

A module of its own: commands check for them before they load what needs them.
"""

from __future__ import annotations

from importlib.util import find_spec

from joey.errors import ConfigError


def require_fleet() -> None:
    """Raises ConfigError: the extra is not installed."""
    if find_spec("dbos") is None or find_spec("sqlalchemy") is None:
        raise ConfigError("Batches need the extra `fleet`: pip install 'joey[fleet]'.")
