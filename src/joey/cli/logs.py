"""Logging to stderr, without secrets. More than warnings only with `--debug`."""

from __future__ import annotations

import logging
import os
import sys

from joey.core.redaction import KnownSecrets, redact_log_line


class RedactingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact_log_line(super().format(record), redact)


def configure_logging(*, debug: bool) -> None:
    """Also what nobody has set up a handler for goes through here."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(RedactingFormatter())
    if debug:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(RedactingFormatter(logging.BASIC_FORMAT))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])


def redact(text: str) -> str:
    """The text without the keys that are in use."""
    # What has not been loaded has met none, and would take its time.
    redaction = sys.modules.get("joey.app.known_secrets")
    known: KnownSecrets = KnownSecrets() if redaction is None else redaction.KNOWN_SECRETS
    known.add_environment_secrets(os.environ)
    return known.redact(text)
