"""Logging to stderr, without secrets. More than warnings only with `--debug`."""

from __future__ import annotations

import logging
import os
import sys

from joey.core.redaction import KnownSecrets, blotted_line


class RedactingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return blotted_line(super().format(record), discreet)


def set_up_log(*, debug: bool) -> None:
    """Also what nobody has set up a handler for goes through here."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(RedactingFormatter())
    if debug:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(RedactingFormatter(logging.BASIC_FORMAT))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])


def discreet(text: str) -> str:
    """The text without the keys that are in use."""
    # What has not been loaded has met none, and would take its time.
    secrecy = sys.modules.get("joey.app.redaction")
    known: KnownSecrets = KnownSecrets() if secrecy is None else secrecy.KNOWN_SECRETS
    known.learn_environment(os.environ)
    return known.blot(text)
