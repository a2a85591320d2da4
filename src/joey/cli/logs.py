"""Logging to stderr, without secrets. Levels below warning need `--debug`."""

from __future__ import annotations

import logging
import os
import sys

from joey.core.redaction import KnownSecrets, redact_log_line


class RedactingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact_log_line(super().format(record), redact)


def configure_logging(*, debug: bool) -> None:
    """Configure logging, including loggers without handlers of their own."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(RedactingFormatter())
    if debug:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(RedactingFormatter(logging.BASIC_FORMAT))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])


def redact(text: str) -> str:
    """Remove the keys in use from a text."""
    # If the module is not loaded, there are no secrets yet; loading it would take time.
    redaction = sys.modules.get("joey.app.known_secrets")
    known: KnownSecrets = KnownSecrets() if redaction is None else redaction.KNOWN_SECRETS
    known.add_environment_secrets(os.environ)
    return known.redact(text)
