"""Commands about settings, profiles, modes, slash commands, models; secrets are never returned."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.redaction import remove_secrets
from joey.core.wire import commands as wire
from joey.core.wire.events import ModePayload, ProfilePayload
from joey.errors import ConfigError
from joey.server.commands.call import AnyCall, CommandCall, make_argument_error

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def get_configuration(hub: ServerHub, call: AnyCall) -> wire.Configuration:
    return wire.Configuration(configuration=hub.services.config_store.read_configuration())


async def set_configuration(hub: ServerHub, call: CommandCall[wire.SetConfiguration]) -> None:
    values, preferences = call.arguments.values, hub.services.config_store
    before = preferences.read_settings_document().get("mode")
    profiles = preferences.load_profiles()
    mode = values.get("mode")
    if mode is not None:
        modes = await asyncio.to_thread(hub.services.list_modes)
        if mode not in [known.slug for known in modes]:
            raise make_argument_error("arguments.values.mode", "there is no such mode.")
    try:
        preferences.update_settings_and_profile(values, hub.services.find_usual_provider())
    except ConfigError as error:
        raise make_argument_error("arguments.values", str(error)) from error
    after = preferences.read_settings_document().get("mode")
    if after != before:
        hub.announce("modeChanged", ModePayload(mode=str(after)))
    if preferences.load_profiles() != profiles:
        _announce_active_profile(hub)


async def get_profiles(hub: ServerHub, call: AnyCall) -> wire.ProfileNames:
    return wire.ProfileNames(profiles=sorted(hub.services.config_store.load_profiles().profiles))


async def get_active_profile(hub: ServerHub, call: AnyCall) -> wire.ActiveProfile:
    profiles = hub.services.config_store.load_profiles()
    known = profiles.active_name in profiles.profiles
    return wire.ActiveProfile(active_profile=profiles.active_name if known else None)


async def set_active_profile(
    hub: ServerHub, call: CommandCall[wire.ProfileName]
) -> wire.ActiveProfile:
    name = _require_profile(hub, call)
    hub.services.config_store.activate_profile(name)
    _announce_active_profile(hub)
    return wire.ActiveProfile(active_profile=name)


async def get_profile_entry(
    hub: ServerHub, call: CommandCall[wire.ProfileName]
) -> wire.ProfileData:
    entry = hub.services.config_store.get_profile_entry(_require_profile(hub, call))
    return wire.ProfileData(profile=remove_secrets(entry))


async def save_profile(
    exists: bool | None, hub: ServerHub, call: CommandCall[wire.ProfileEntry]
) -> wire.ProfileId:
    """Save a profile; `exists` says whether one of this name must exist; None if either is fine."""
    name, store = call.arguments.name, hub.services.config_store
    if exists is not None and exists != (name in store.load_profiles().profiles):
        problem = "does not exist" if exists else "exists already"
        raise make_argument_error("arguments.name", f"the profile '{name}' {problem}.")
    try:
        store.save_profile(name, call.arguments.profile or {}, activate=call.arguments.activate)
    except ConfigError as error:
        raise make_argument_error("arguments.profile", str(error)) from error
    if call.arguments.activate:
        _announce_active_profile(hub)
    return wire.ProfileId(profile_id=name)


async def delete_profile(hub: ServerHub, call: CommandCall[wire.ProfileName]) -> None:
    hub.services.config_store.delete_profile(_require_profile(hub, call))
    _announce_active_profile(hub)


def _require_profile(hub: ServerHub, call: CommandCall[wire.ProfileName]) -> str:
    name = call.arguments.name
    if name not in hub.services.config_store.load_profiles().profiles:
        raise make_argument_error("arguments.name", f"there is no profile '{name}'.")
    return name


def _announce_active_profile(hub: ServerHub) -> None:
    profiles = hub.services.config_store.load_profiles()
    active = profiles.profiles.get(profiles.active_name)
    provider = active.provider if active else ""
    hub.announce(
        "providerProfileChanged", ProfilePayload(name=profiles.active_name, provider=provider)
    )


async def get_modes(hub: ServerHub, call: AnyCall) -> wire.Modes:
    return wire.Modes(
        modes=[
            wire.ModeInfo(
                slug=mode.slug, name=mode.name, description=mode.description or mode.purpose
            )
            for mode in await asyncio.to_thread(hub.services.list_modes)
        ]
    )


async def get_models(hub: ServerHub, call: CommandCall[wire.GetModels]) -> wire.Models:
    try:
        return wire.Models(models=hub.services.list_models(call.arguments.provider))
    except ConfigError as error:
        raise make_argument_error("arguments.provider", str(error)) from error


async def get_commands(hub: ServerHub, call: AnyCall) -> wire.Commands:
    commands: list[dict[str, str]] = []
    for command in await asyncio.to_thread(hub.services.list_commands):
        about = {"description": command.description, "argumentHint": command.argument_hint}
        known = {name: text for name, text in about.items() if text}
        commands.append({"name": command.name, "source": command.source, **known})
    return wire.Commands(commands=commands)
