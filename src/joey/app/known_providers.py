"""The services that a person may choose from when they come for the first time."""

from __future__ import annotations

from msgspec import Struct

from joey.providers.registry import KINDS, ProviderKind, models_of


class KnownProvider(Struct, frozen=True):
    name: str
    needs_key: bool
    models: tuple[str, ...]
    """Those that are known by name, the usual one first."""


def known_providers() -> tuple[KnownProvider, ...]:
    return tuple(KnownProvider(kind.name, not kind.is_local, _models(kind)) for kind in KINDS)


def _models(kind: ProviderKind) -> tuple[str, ...]:
    names = dict.fromkeys((kind.default_model, *models_of(kind.name)))
    return tuple(name for name in names if name)
