"""Routes from the user's flags and profiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from joey.config.profiles import choose_profile, load_profiles
from joey.core.models import ApiProtocol, ProviderSpec
from joey.core.settings import Profile
from joey.errors import ConfigError
from joey.providers.catalog import PROVIDER_SPECS
from joey.proxy.exchange import Wire
from joey.proxy.routes import ANTHROPIC_URL, OPENAI_URL, Routes, make_upstream

_DEFAULT_URLS = {Wire.ANTHROPIC: ANTHROPIC_URL, Wire.OPENAI: OPENAI_URL}
_WIRES = {
    ApiProtocol.ANTHROPIC: Wire.ANTHROPIC,
    ApiProtocol.OPENAI: Wire.OPENAI,
}
"""Protocols that can be forwarded; cloud requests are signed for the cloud's own address."""


def build_routes(
    home: Path,
    env: Mapping[str, str],
    urls: Mapping[Wire, str | None],
    key_profile: str | None = None,
) -> Routes:
    """Build routes; `urls` come from flags; without one, the active profile's address is used if it
    supports that API, else the service's own. The key of `key_profile` is sent only to that
    profile's address. Raises ConfigError."""
    profiles = load_profiles(home)
    keys: dict[Wire, tuple[str, str]] = {}
    chosen = dict(urls)
    if key_profile is not None:
        keyed = choose_profile(
            profiles=profiles, env=env, kinds=PROVIDER_SPECS, profile=key_profile
        )
        wire = _find_wire(keyed)
        if wire is None or keyed.api_key is None:
            raise ConfigError(
                f"The profile {key_profile!r} has no key that joey proxy can send. Use a profile "
                f"with an API key for an Anthropic- or OpenAI-compatible service."
            )
        keys[wire] = _build_key_header(wire, keyed.api_key)
        chosen[wire] = chosen.get(wire) or _find_url(keyed)
    active = profiles.profiles.get(profiles.active_name)
    for wire, default in _DEFAULT_URLS.items():
        is_active = active is not None and _find_wire(active) is wire and active.base_url
        usual = active.base_url if active is not None and is_active else default
        chosen[wire] = chosen.get(wire) or usual
    upstreams = {
        wire: make_upstream(chosen[wire] or "", f"address (--{wire.value})", keys.get(wire))
        for wire in Wire
    }
    return Routes(
        upstreams,
        {
            name: make_upstream(url, f"base URL of the profile {name}")
            for name, profile in profiles.profiles.items()
            if _find_wire(profile) is not None and (url := _find_url(profile))
        },
    )


def check_no_loop(routes: Routes, port: int) -> None:
    """Check that requests would not return to the proxy itself. Raises ConfigError."""
    for upstream in routes.by_wire.values():
        if upstream.address.is_loopback and upstream.address.port == port:
            raise ConfigError(
                f"{upstream.url} is the proxy itself, so requests would go in a circle. Name the"
                " service's address with --anthropic or --openai."
            )


def _find_spec(profile: Profile) -> ProviderSpec | None:
    return next((spec for spec in PROVIDER_SPECS if spec.name == profile.provider), None)


def _find_wire(profile: Profile) -> Wire | None:
    spec = _find_spec(profile)
    return None if spec is None else _WIRES.get(spec.api_protocol)


def _find_url(profile: Profile) -> str:
    spec = _find_spec(profile)
    return profile.base_url or (spec.base_url if spec else "")


def _build_key_header(wire: Wire, key: str) -> tuple[str, str]:
    return ("x-api-key", key) if wire is Wire.ANTHROPIC else ("Authorization", f"Bearer {key}")
