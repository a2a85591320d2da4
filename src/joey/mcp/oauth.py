"""OAuth 2.1 logins at MCP servers: the library's client over our credential files.

A running task never asks the user to log in: tokens are renewed as long as possible, and after that
the server counts as not connected until `joey mcp login`.

Imports the MCP library at the top: load it with `connection.load_module("oauth")`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from joey.errors import UserError
from joey.mcp.login import Credentials, LoginCallback

_UNUSED_REDIRECT_URL = "http://127.0.0.1/callback"


ModelT = TypeVar("ModelT", bound=BaseModel)


class LoginNeededError(Exception):
    """A user has to log in again."""


class FileTokenStorage:
    """The library's token storage, with data that it would not store itself."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._stored_values = credentials.load()
        self.provider: OAuthClientProvider | None = None

    @property
    def expires_at(self) -> float | None:
        found = self._stored_values.get("expiresAt")
        return float(found) if isinstance(found, int | float) else None

    def get_stored_model(self, name: str, model: type[ModelT]) -> ModelT | None:
        try:
            return model.model_validate(self._stored_values[name])
        except (KeyError, ValidationError):
            return None

    async def get_tokens(self) -> OAuthToken | None:
        return self.get_stored_model("tokens", OAuthToken)

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
        return self.get_stored_model("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._credentials.update(client=client_info.model_dump(mode="json", exclude_none=True))


def build_stored_auth(credentials: Credentials) -> OAuthClientProvider | None:
    """Build the authentication of an earlier login; None if there was none."""
    storage = FileTokenStorage(credentials)
    if storage.get_stored_model("tokens", OAuthToken) is None:
        return None

    async def refuse(_: str) -> None:
        raise LoginNeededError

    async def refuse_callback() -> AuthorizationCodeResult:
        raise LoginNeededError

    provider = _build_provider(credentials.url, _UNUSED_REDIRECT_URL, storage)
    provider.context.redirect_handler = refuse
    provider.context.callback_handler = refuse_callback
    provider.context.token_expiry_time = storage.expires_at
    provider.context.oauth_metadata = storage.get_stored_model("service", OAuthMetadata)
    provider.context.protected_resource_metadata = storage.get_stored_model(
        "resource", ProtectedResourceMetadata
    )
    return provider


def build_login_auth(
    credentials: Credentials, callback: LoginCallback, show_url: Callable[[str], None]
) -> OAuthClientProvider:
    """Build an interactive login; `show_url` gets the address to open."""
    credentials.discard()

    async def open_login_page(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise UserError("The server's login address is not a web address.")
        callback.expected_state = parse_qs(parts.query).get("state", [""])[0]
        show_url(url)

    async def wait_for_code() -> AuthorizationCodeResult:
        given = await callback.wait_for_parameters()
        return AuthorizationCodeResult(
            code=given["code"], state=given.get("state"), iss=given.get("iss")
        )

    provider = _build_provider(
        credentials.url, callback.redirect_url, FileTokenStorage(credentials)
    )
    provider.context.redirect_handler = open_login_page
    provider.context.callback_handler = wait_for_code
    return provider


def _build_provider(url: str, redirect_url: str, storage: FileTokenStorage) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        client_name="joey", redirect_uris=[AnyUrl(redirect_url)], token_endpoint_auth_method="none"
    )
    storage.provider = OAuthClientProvider(url, metadata, storage)
    return storage.provider
