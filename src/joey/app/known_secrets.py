"""Secrets known to this process, redacted from logs and exports.

There is one log for the whole process, and so one list of secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from joey.config.home import resolve_home_and_env
from joey.config.profiles import load_profiles
from joey.core.redaction import KnownSecrets
from joey.core.settings import Profile
from joey.errors import ConfigError
from joey.ports.model import RequestRecorder
from joey.providers.http_client import HttpClient
from joey.storage.task_store import TaskSecretFiles

KNOWN_SECRETS = KnownSecrets()
_SERVER_TOKEN_FILE = "server.token"


def build_http_client(
    profile: Profile, env: Mapping[str, str], recorder: RequestRecorder | None = None
) -> HttpClient:
    """Build an HTTP client for a profile, and redact the profile's key from now on."""
    KNOWN_SECRETS.add(*profile.secrets)
    return HttpClient(environ=env, recorder=recorder)


def collect_all_secrets() -> KnownSecrets:
    """Collect all secrets of this machine, also unused ones, to redact data for others."""
    home, env = resolve_home_and_env()
    KNOWN_SECRETS.add_environment_secrets(env)
    try:
        for profile in load_profiles(home).profiles.values():
            KNOWN_SECRETS.add(*profile.secrets)
    except ConfigError:
        pass  # commands that use the profiles report their errors
    for secrets in TaskSecretFiles(home).load_all():
        KNOWN_SECRETS.add(*secrets.values)
    with suppress(OSError, UnicodeDecodeError):  # no server has run here yet
        KNOWN_SECRETS.add((home / _SERVER_TOKEN_FILE).read_text(encoding="utf-8").strip())
    return KNOWN_SECRETS
