"""The start of a sandboxed command: its arguments, variables and resource limits.

A separate module because it is loaded with the first command, not with the sandbox.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Mapping, Sequence

from joey.core.permissions.hosts import NetworkSetting
from joey.core.settings import Settings

_MAX_ARGUMENT_BYTES = 128 * 1024
"""What the kernel takes as one argument."""
_CACHE_PLACES = {"npm_config_cache": "/npm", "GOCACHE": "/go-build", "UV_CACHE_DIR": "/uv"}
"""Caches that tools cannot do without writing: they get one of the task's own."""
_OFFLINE_VARIABLES = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}
"""Package managers retry for minutes where no attempt can succeed."""


def build_environment(
    env: Mapping[str, str], given: Mapping[str, str], network: NetworkSetting
) -> dict[str, str]:
    """Build the variables of a command; `given` are those that the sandbox sets."""
    defaults = {name: given["TMPDIR"] + place for name, place in _CACHE_PLACES.items()}
    defaults |= _OFFLINE_VARIABLES if network == "off" else {}
    return {**defaults, **env, **given}


def encode_arguments(shell: Sequence[str]) -> list[bytes]:
    """Encode arguments. Raises OSError or ValueError, as starting a process would."""
    encoded = [os.fsencode(each) for each in shell]
    if any(b"\0" in each for each in encoded):
        raise ValueError("embedded null byte")
    if any(len(each) >= _MAX_ARGUMENT_BYTES for each in encoded):
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return encoded


def build_resource_limits(settings: Settings) -> list[tuple[int, int]]:
    found = (
        (resource.RLIMIT_CPU, settings.sandbox_max_cpu_seconds),
        (resource.RLIMIT_DATA, settings.sandbox_max_memory_mb * 1024**2),
        (resource.RLIMIT_FSIZE, settings.sandbox_max_file_mb * 1024**2),
    )
    return [(resource.RLIMIT_CORE, 0), *(limit for limit in found if limit[1] > 0)]
