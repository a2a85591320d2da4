"""Logins of clouds: their libraries, loaded when needed, and requests that carry their tokens.

Only signatures, tokens and frames come from these libraries; requests to models go through joey's
own client. They block, so they run in threads.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from msgspec import structs

from joey.core.text import compile_regex
from joey.errors import ConfigError, ProviderError, ProviderFailureKind, UserError
from joey.providers.errors import ServiceInfo
from joey.providers.sse_transport import StreamingProvider

_NAME_PATTERNS = {
    "region": compile_regex(r"[a-z0-9]+(?:-[a-z0-9]+)*"),
    "project": compile_regex(r"[a-z0-9](?:[a-z0-9:.-]*[a-z0-9])?"),
}
_MAX_REASON_CHARS = 600


def load_library(module: str, extra: str) -> ModuleType:
    """Raises ConfigError if it is not installed. It logs only warnings: its details are secret."""
    logging.getLogger(module.partition(".")[0]).setLevel(logging.WARNING)
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"The provider {extra} needs a library that is not installed:"
            f" pip install 'joey[{extra}]'"
        ) from error


def check_name(name: str, field: str) -> str:
    """Check a `region` or `project`, which becomes part of an address. Raises ConfigError."""
    if not _NAME_PATTERNS[field].fullmatch(name):
        raise ConfigError(f"{name!r} is no {field} of a cloud.", field=field, value=name)
    return name


@contextmanager
def translate_login_errors(
    service: ServiceInfo, advice: str, network_error: type[Exception]
) -> Iterator[None]:
    """Translate errors. Login libraries can raise any error from the files and programs that they
    use."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        is_network = isinstance(error, network_error)
        raise _build_login_error(service, error, advice, is_network=is_network) from error


def _build_login_error(
    service: ServiceInfo, error: Exception, advice: str, *, is_network: bool
) -> ProviderError:
    """Build the error for a login without a token, perhaps because its service was not reached."""
    reason = service.redact(" ".join(str(error).split()))[:_MAX_REASON_CHARS]
    if is_network:
        text = (
            f"The {service.login} for {service.label} could not be renewed. Try again. ({reason})"
        )
        return ProviderError(text, failure=ProviderFailureKind.NETWORK)
    text = f"No {service.login} was found for {service.label}. {advice} ({reason})"
    return ProviderError(text, failure=ProviderFailureKind.AUTH)


class TokenProvider(StreamingProvider):
    """A provider whose requests carry a token that expires; with a key, they carry that."""

    async def _authorize(self, body: Sequence[bytes]) -> Mapping[str, str]:
        if not self._service.login:
            return self._headers
        token = await asyncio.to_thread(self._fetch_token)
        self._service = structs.replace(self._service, secrets=(*self._profile.secrets, token))
        return {**self._headers, "authorization": f"Bearer {token}"}

    @abstractmethod
    def _fetch_token(self) -> str:
        """Fetch a valid token. Raises ProviderError, ConfigError."""
