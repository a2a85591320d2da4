"""Refresh of the model catalogue from a document in the format of models.dev.

The whole document is checked before anything is stored. It is stored apart from the user's
`models.json`, which it never replaces.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from joey.config.home import resolve_home_and_env
from joey.config.model_memory import REFRESHED_MODELS_FILE
from joey.config.models_dev import MODELS_DEV_NAMES, ModelEntry, ProviderEntry
from joey.config.settings import load_settings
from joey.core.models import Prices
from joey.core.text import split_validation_error
from joey.errors import ConfigError, ProviderError, ProviderFailureKind, UserError
from joey.providers.catalog import PROVIDER_SPECS
from joey.providers.http_client import HttpClient
from joey.providers.http_connection import parse_url
from joey.system.files import make_private_directory, open_regular_file, replace_file

CONNECT_TIMEOUT_S = 10.0
DOWNLOAD_TIMEOUT_S = 120.0
MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
EXAMPLE_URL = "https://models.dev/api.json"
_ADVICE = f"Check the address, for example {EXAMPLE_URL}. Nothing was changed."
_HTTP_OK = 200
T = TypeVar("T")


class _StoredProvider(Struct, frozen=True):
    models: dict[str, ModelEntry]


class _RefreshedModels(Struct, frozen=True):
    read: str = ""
    """The date of the refresh."""
    source: str = ""
    """The host that the document came from."""
    providers: dict[str, _StoredProvider] = {}
    """By their names here."""


class PriceChange(Struct, frozen=True):
    model: str
    before: Prices | None
    after: Prices | None


class RefreshReport(Struct, frozen=True):
    source: str
    """The host that the document came from."""
    read: str
    """The date that the prices have now."""
    models: int
    providers: int
    added: tuple[str, ...]
    """Models that the last refresh did not have: `openai/gpt-6.1-sol`."""
    price_changes: tuple[PriceChange, ...]
    removed: tuple[str, ...]


async def refresh_models(
    url: str | None,
    report_progress: Callable[[int], None],
) -> RefreshReport:
    """Refresh the catalogue from `url`, or from the address in the settings. `report_progress` is
    called with the number of bytes so far. Raises ConfigError if there is no address or the file
    cannot be written, UserError if the document cannot be fetched or parsed; then nothing is
    changed."""
    home, env = resolve_home_and_env()
    url = url or load_settings(home).model_catalog_url
    if not url:
        raise ConfigError(
            "No address for refreshing the models is set. Set one (joey config set"
            f" modelCatalogUrl {EXAMPLE_URL}), or name it with --from."
        )
    source = parse_url(url, "address of the model catalogue").authority
    data = await _download(url, source, env, report_progress)
    providers = _parse_document(data, source)
    before = _load(home)
    after = _RefreshedModels(time.strftime("%Y-%m-%d"), source, providers)
    _save(home, after)
    return _compare(before, after)


async def _download(
    url: str, source: str, env: Mapping[str, str], report_progress: Callable[[int], None]
) -> bytes:
    client = HttpClient(connect_timeout=CONNECT_TIMEOUT_S, environ=env)
    data = bytearray()
    try:
        async with asyncio.timeout(DOWNLOAD_TIMEOUT_S):
            async with await client.get(url, {"accept": "application/json"}) as response:
                if response.status != _HTTP_OK:
                    raise UserError(
                        _explain_status(source, response.status, response.headers.get("location"))
                    )
                while piece := await response.read():
                    data += piece
                    if len(data) > MAX_DOCUMENT_BYTES:
                        raise UserError(
                            f"{source} sends more than {MAX_DOCUMENT_BYTES // 1024**2} MB, which is"
                            f" no catalogue of models. {_ADVICE}"
                        )
                    report_progress(len(data))
    except TimeoutError as error:
        raise ProviderError(
            f"{source} did not send the catalogue within {DOWNLOAD_TIMEOUT_S:g} seconds. Try again"
            " later.",
            failure=ProviderFailureKind.NETWORK,
        ) from error
    finally:
        await client.close()
    return bytes(data)


def _explain_status(source: str, status: int, location: str | None) -> str:
    if location is not None:
        return f"{source} redirects to {location}: use that address. Nothing was changed."
    return f"{source} answers with status {status}. {_ADVICE}"


def _parse_document(data: bytes, source: str) -> dict[str, _StoredProvider]:
    """Parse the models of providers that joey supports, by joey's provider names. Raises
    UserError."""
    document = _decode(data, dict[str, Raw], source)
    found: dict[str, _StoredProvider] = {}
    for kind in PROVIDER_SPECS:
        name = MODELS_DEV_NAMES.get(kind.name, kind.name)
        if kind.is_local or name not in document:
            continue
        entry = _decode(document[name], ProviderEntry, source, name)
        found[kind.name] = _StoredProvider(
            {
                model: _decode(value, ModelEntry, source, f"{name}.models.{model}")
                for model, value in entry.models.items()
            }
        )
    if not any(each.models for each in found.values()):
        raise UserError(f"The document of {source} has no models of supported providers. {_ADVICE}")
    return found


def _decode(data: bytes | Raw, kind: type[T], source: str, place: str = "") -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        location, problem = split_validation_error(error)
        where = ".".join(filter(None, (place, location)))
        at = f" at `{where}`" if where else ""
        raise UserError(f"The document of {source} is invalid{at}: {problem}. {_ADVICE}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"The document of {source} is not JSON ({error}). {_ADVICE}") from error


def _load(home: Path) -> _RefreshedModels:
    """Load the models of the last refresh; empty if none can be read."""
    try:
        with open_regular_file(home / REFRESHED_MODELS_FILE) as file:
            return msgspec.json.decode(file.read(), type=_RefreshedModels)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _RefreshedModels()


def _save(home: Path, models: _RefreshedModels) -> None:
    """Replace the file atomically. Raises ConfigError."""
    path = home / REFRESHED_MODELS_FILE
    try:
        make_private_directory(home)
        replace_file(path, msgspec.json.encode(models))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def _compare(before: _RefreshedModels, after: _RefreshedModels) -> RefreshReport:
    old, new = _list_prices(before), _list_prices(after)
    return RefreshReport(
        source=after.source,
        read=after.read,
        models=len(new),
        providers=len(after.providers),
        added=tuple(name for name in new if name not in old),
        price_changes=tuple(
            PriceChange(name, old[name], prices)
            for name, prices in new.items()
            if name in old and old[name] != prices
        ),
        removed=tuple(name for name in old if name not in new),
    )


def _list_prices(models: _RefreshedModels) -> dict[str, Prices | None]:
    """Return prices by provider and model, without their dates."""
    return {
        f"{provider}/{name}": None if entry.cost is None else entry.cost.to_prices("")
        for provider, stored in models.providers.items()
        for name, entry in stored.models.items()
    }
