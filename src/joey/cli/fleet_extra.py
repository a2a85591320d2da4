"""The optional libraries of batches.

A separate module: commands check for them before loading code that needs them.
"""

from __future__ import annotations

from importlib.util import find_spec

from joey.errors import ConfigError


def require_fleet() -> None:
    """Check that the extra is installed. Raises ConfigError."""
    if find_spec("dbos") is None or find_spec("sqlalchemy") is None:
        raise ConfigError("Batches need the extra `fleet`: pip install 'joey[fleet]'.")
