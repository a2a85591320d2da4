"""Probes of what a task talks to: keys, the model that is chosen, and whether it answers."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Iterator

from joey.app.check_up import keys_here
from joey.app.local_servers import PLACES, LocalServer, find_local_servers
from joey.app.model_list import NO_SUCH_PAGE, ask_for_models, silent_address
from joey.app.options import make_options
from joey.app.profile_shelf import ProfileShelf
from joey.cli.probes import FIX, Finding, Status, here
from joey.core.redaction import without_secrets
from joey.core.settings import Profile
from joey.errors import ConfigError, NoModelError, UserError

PATIENCE = 3.0
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_WRONG_KEY = (401, 403)


def probe_keys() -> Finding:
    """Names only: a key is never shown."""
    try:
        found = keys_here(os.environ)
    except ConfigError as error:
        return Finding("Keys", Status.FAIL, "profiles.json cannot be read", str(error))
    if not found:
        advice = "Set a key, joey profiles add, or use a model server of this machine."
        return Finding("Keys", Status.WARN, "no key is set, and none in a profile", advice)
    wrong = [f"{key.where}: {key.trouble}" for key in found if key.trouble]
    listed = ", ".join(key.where for key in found)
    if wrong:
        advice = f"Set it again, as the provider shows it: {'; '.join(wrong)}."
        return Finding("Keys", Status.WARN, listed, advice)
    return Finding("Keys", Status.OK, listed)


def probe_profiles() -> Finding:
    shelf = ProfileShelf()
    try:
        known, remark = shelf.profiles(), shelf.remark
    except ConfigError as error:
        return Finding("Profiles", Status.FAIL, "they cannot be read", str(error))
    if remark:
        advice = FIX if shelf.active in known else f"joey profiles use NAME: {', '.join(known)}."
        return Finding("Profiles", Status.WARN, remark, advice)
    active = f" ({shelf.active} is the active one)" * (shelf.active in known)
    return Finding("Profiles", Status.OK, f"{', '.join(known) or 'none'}{active}")


def settle_profiles() -> Iterator[str]:
    if settled := ProfileShelf().settle():
        yield f"{settled} is the active profile"


def probe_local_servers() -> Finding:
    servers = asyncio.run(find_local_servers(os.environ))
    if not servers:
        looked = ", ".join(kind.name for kind in PLACES)
        return Finding("Local models", Status.OK, f"none running (looked for {looked})")
    listed = "; ".join(f"{each.provider} at {each.base_url}: {_offer(each)}" for each in servers)
    usable = next((each for each in servers if each.models), servers[0])
    advice = f"To use it: joey {shlex.join(usable.flags)}"
    return Finding("Local models", Status.OK, listed, advice)


def _offer(server: LocalServer) -> str:
    models = server.models
    more = f" and {len(models) - 3} more" if len(models) > 3 else ""
    return ", ".join(models[:3]) + more if models else "no model is loaded yet"


def probe_model() -> Finding:
    """Settings and profiles are read, and a model is chosen, exactly as for a task."""
    try:
        profile = _profile()
    except ConfigError as error:
        return Finding("Model", Status.FAIL, "none can be used", str(error))
    except UserError as error:
        return Finding("Model", Status.WARN, "could not be chosen", str(error))
    where = f" at {without_secrets(profile.base_url)}" if profile.base_url else ""
    return Finding("Model", Status.OK, f"{profile.model} of {profile.provider}{where}")


def probe_reach() -> Finding:
    """Name, connection, certificate, and an answer to the cheapest question there is."""
    try:
        profile = _profile()
    except NoModelError:
        return Finding("Connection", Status.OK, "not tried: no model is chosen yet")
    except UserError:
        return Finding("Connection", Status.OK, "not tried: see the finding about the model")
    begun = time.monotonic()
    try:
        answer = asyncio.run(ask_for_models(profile, os.environ, PATIENCE))
        silent = None
        if answer.status == NO_SUCH_PAGE:
            silent = asyncio.run(silent_address(profile, os.environ, PATIENCE))
    except ConfigError as error:
        return Finding("Connection", Status.FAIL, "there is no way to it", str(error))
    except UserError as error:
        advice = f"{error}{_proxies()} joey doctor --offline leaves this out."
        return Finding("Connection", Status.FAIL, f"{profile.provider} cannot be reached", advice)
    took = f"in {(time.monotonic() - begun) * 1000:.0f} ms{_proxies()}"
    return _unlisted(silent, profile, took) if silent else _judged(profile, answer.status, took)


def _unlisted(url: str, profile: Profile, took: str) -> Finding:
    """Some servers know nothing but what a task sends them; others are at another address."""
    advice = (
        f"Only a task will tell whether it works: it asks {without_secrets(url)}. If that fails,"
        " check the address, its path above all; joey profiles show names its source."
    )
    found = f"{profile.provider} answers, but does not list its models ({NO_SUCH_PAGE}) {took}"
    return Finding("Connection", Status.WARN, found, advice)


def _judged(profile: Profile, status: int, took: str) -> Finding:
    name = profile.provider
    if status in _WRONG_KEY:
        advice = "The key is not accepted there: set another. joey profiles show names its source."
        return Finding("Connection", Status.FAIL, f"{name} answers {status} {took}", advice)
    if status >= 500 or status == 429:
        advice = "The service is in trouble or busy: try again later."
        return Finding("Connection", Status.WARN, f"{name} answers {status} {took}", advice)
    if 300 <= status < 400:
        advice = "It points elsewhere: set the base URL to where it answers itself."
        return Finding("Connection", Status.WARN, f"{name} answers {status} {took}", advice)
    # Some have no list of models to ask for; that they answer at all is what matters.
    return Finding("Connection", Status.OK, f"{name} answers ({status}) {took}")


def _proxies() -> str:
    named = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower())]
    return f" ({', '.join(named)} is set)" if named else ""


def _profile() -> Profile:
    """Raises UserError."""
    profile = make_options(workspace=here()).profile
    assert profile is not None
    return profile
