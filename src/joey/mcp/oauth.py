"""OAuth 2.1 logins at MCP servers: the library's client over our credential files.

While a task works, no user is asked to log in: tokens are renewed as long as that works without
one, and after that the server counts as not connected until `joey mcp login`.

Imports the MCP library at the top: load it with `connection.load("oauth")`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from joey.errors import UserError
from joey.mcp.login import Credentials, LoginCallback

_UNUSED_REDIRECT_URL = "http://127.0.0.1/callback"


class LoginNeededError(Exception):
    """A person has to log in again."""


class FileTokenStorage:
    """The library's idea of a place for tokens, and what it forgets to keep with them."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._known = credentials.load()
        self.provider: OAuthClientProvider | None = None

    @property
    def expires_at(self) -> float | None:
        found = self._known.get("expiresAt")
        return float(found) if isinstance(found, int | float) else None

    def kept(self, name: str, kind: type[Any]) -> Any:
        try:
            return kind.model_validate(self._known[name])
        except (KeyError, ValidationError):
            return None

    async def get_tokens(self) -> OAuthToken | None:
        tokens: OAuthToken | None = self.kept("tokens", OAuthToken)
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        values: dict[str, Any] = {"tokens": tokens.model_dump(mode="json", exclude_none=True)}
        values["expiresAt"] = None if tokens.expires_in is None else time.time() + tokens.expires_in
        if self.provider is not None:
            context = self.provider.context
            for name, found in (
                ("service", context.oauth_metadata),
                ("resource", context.protected_resource_metadata),
            ):
                if found is not None:
                    values[name] = found.model_dump(mode="json", exclude_none=True)
        self._credentials.update(**values)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client: OAuthClientInformationFull | None = self.kept("client", OAuthClientInformationFull)
        return client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._credentials.update(client=client_info.model_dump(mode="json", exclude_none=True))


def known_login(credentials: Credentials) -> OAuthClientProvider | None:
    """What an earlier login allows; None when there was none."""
    storage = FileTokenStorage(credentials)
    if storage.kept("tokens", OAuthToken) is None:
        return None

    async def refuse(_: str) -> None:
        raise LoginNeededError

    async def never() -> AuthorizationCodeResult:
        raise LoginNeededError

    provider = _provider(credentials.url, _UNUSED_REDIRECT_URL, storage)
    provider.context.redirect_handler = refuse
    provider.context.callback_handler = never
    provider.context.token_expiry_time = storage.expires_at
    provider.context.oauth_metadata = storage.kept("service", OAuthMetadata)
    provider.context.protected_resource_metadata = storage.kept(
        "resource", ProtectedResourceMetadata
    )
    return provider


def new_login(
    credentials: Credentials, callback: LoginCallback, show: Callable[[str], None]
) -> OAuthClientProvider:
    """A login that a person goes through; `show` gets the address to open."""
    credentials.forget()

    async def send_away(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise UserError("The server wants to log in at something that is no web address.")
        callback.state = parse_qs(parts.query).get("state", [""])[0]
        show(url)

    async def come_back() -> AuthorizationCodeResult:
        given = await callback.answer()
        return AuthorizationCodeResult(
            code=given["code"], state=given.get("state"), iss=given.get("iss")
        )

    provider = _provider(credentials.url, callback.address, FileTokenStorage(credentials))
    provider.context.redirect_handler = send_away
    provider.context.callback_handler = come_back
    return provider


def _provider(url: str, redirect: str, storage: FileTokenStorage) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        client_name="joey",
        redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method="none",
    )
    storage.provider = OAuthClientProvider(url, metadata, storage)
    return storage.provider
