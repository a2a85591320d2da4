"""Commands about settings, profiles, modes, slash commands, models; secrets never come out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.modes import SlashCommand
from joey.core.redaction import remove_secrets
from joey.core.wire import commands as wire
from joey.core.wire.events import ModePayload, ProfilePayload
from joey.errors import ConfigError
from joey.server.commands.call import CommandCall, make_argument_error

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def get_configuration(hub: ServerHub, call: CommandCall) -> wire.Configuration:
    preferences = hub.services.config_store
    profiles = preferences.load_profiles()
    document = {
        **preferences.read_settings_document(),
        "currentApiConfigName": profiles.active_name,
    }
    if active := profiles.profiles.get(profiles.active_name):
        document |= {"apiProvider": active.provider, "apiModelId": active.model}
    return wire.Configuration(configuration=remove_secrets(document))


async def set_configuration(hub: ServerHub, call: CommandCall) -> wire.Done:
    arguments: wire.SetConfiguration = call.arguments
    preferences = hub.services.config_store
    before = preferences.read_settings_document().get("mode")
    profiles = preferences.load_profiles()
    mode = arguments.values.get("mode")
    if mode is not None:
        modes = await asyncio.to_thread(hub.services.list_modes)
        if mode not in [known.slug for known in modes]:
            raise make_argument_error("arguments.values.mode", "there is no such mode.")
    try:
        preferences.update_settings_and_profile(arguments.values)
    except ConfigError as error:
        raise make_argument_error("arguments.values", str(error)) from error
    after = preferences.read_settings_document().get("mode")
    if after != before:
        hub.announce("modeChanged", ModePayload(mode=str(after)))
    if preferences.load_profiles() != profiles:
        _announce_active_profile(hub)
    return wire.Done()


async def get_profiles(hub: ServerHub, call: CommandCall) -> wire.ProfileNames:
    return wire.ProfileNames(profiles=sorted(hub.services.config_store.load_profiles().profiles))


async def get_active_profile(hub: ServerHub, call: CommandCall) -> wire.ActiveProfile:
    profiles = hub.services.config_store.load_profiles()
    known = profiles.active_name in profiles.profiles
    return wire.ActiveProfile(active_profile=profiles.active_name if known else None)


async def set_active_profile(hub: ServerHub, call: CommandCall) -> wire.ActiveProfile:
    arguments: wire.ProfileName = call.arguments
    _check_profile_exists(hub, arguments.name)
    hub.services.config_store.activate_profile(arguments.name)
    _announce_active_profile(hub)
    return wire.ActiveProfile(active_profile=arguments.name)


async def get_profile_entry(hub: ServerHub, call: CommandCall) -> wire.ProfileData:
    arguments: wire.ProfileName = call.arguments
    _check_profile_exists(hub, arguments.name)
    entry = hub.services.config_store.get_profile_entry(arguments.name)
    return wire.ProfileData(profile=remove_secrets(entry))


async def create_profile(hub: ServerHub, call: CommandCall) -> wire.ProfileId:
    return _save_profile(hub, call, exists=False)


async def update_profile(hub: ServerHub, call: CommandCall) -> wire.ProfileId:
    return _save_profile(hub, call, exists=True)


async def upsert_profile(hub: ServerHub, call: CommandCall) -> wire.ProfileId:
    return _save_profile(hub, call, exists=None)


def _save_profile(hub: ServerHub, call: CommandCall, *, exists: bool | None) -> wire.ProfileId:
    arguments: wire.ProfileEntry = call.arguments
    if exists is not None and exists != (
        arguments.name in hub.services.config_store.load_profiles().profiles
    ):
        problem = "does not exist" if exists else "exists already"
        raise make_argument_error("arguments.name", f"the profile '{arguments.name}' {problem}.")
    try:
        hub.services.config_store.save_profile(
            arguments.name, arguments.profile or {}, activate=arguments.activate
        )
    except ConfigError as error:
        raise make_argument_error("arguments.profile", str(error)) from error
    if arguments.activate:
        _announce_active_profile(hub)
    return wire.ProfileId(profile_id=arguments.name)


async def delete_profile(hub: ServerHub, call: CommandCall) -> wire.Done:
    arguments: wire.ProfileName = call.arguments
    _check_profile_exists(hub, arguments.name)
    hub.services.config_store.delete_profile(arguments.name)
    _announce_active_profile(hub)
    return wire.Done()


def _check_profile_exists(hub: ServerHub, name: str) -> None:
    if name not in hub.services.config_store.load_profiles().profiles:
        raise make_argument_error("arguments.name", f"there is no profile '{name}'.")


def _announce_active_profile(hub: ServerHub) -> None:
    profiles = hub.services.config_store.load_profiles()
    active = profiles.profiles.get(profiles.active_name)
    provider = active.provider if active else ""
    hub.announce(
        "providerProfileChanged", ProfilePayload(name=profiles.active_name, provider=provider)
    )


async def get_modes(hub: ServerHub, call: CommandCall) -> wire.Modes:
    modes = await asyncio.to_thread(hub.services.list_modes)
    return wire.Modes(
        modes=[
            wire.ModeInfo(
                slug=mode.slug, name=mode.name, description=mode.description or mode.purpose
            )
            for mode in modes
        ]
    )


async def get_models(hub: ServerHub, call: CommandCall) -> wire.Models:
    arguments: wire.GetModels = call.arguments
    try:
        return wire.Models(models=hub.services.list_models(arguments.provider))
    except ConfigError as error:
        raise make_argument_error("arguments.provider", str(error)) from error


async def get_commands(hub: ServerHub, call: CommandCall) -> wire.Commands:
    commands = await asyncio.to_thread(hub.services.list_commands)
    return wire.Commands(commands=[_encode_slash_command(command) for command in commands])


def _encode_slash_command(command: SlashCommand) -> dict[str, str]:
    about = {"description": command.description, "argumentHint": command.argument_hint}
    known = {name: text for name, text in about.items() if text}
    return {"name": command.name, "source": command.source, **known}


HANDLERS = {
    "getConfiguration": get_configuration,
    "setConfiguration": set_configuration,
    "getProfiles": get_profiles,
    "getActiveProfile": get_active_profile,
    "setActiveProfile": set_active_profile,
    "getProfileEntry": get_profile_entry,
    "createProfile": create_profile,
    "updateProfile": update_profile,
    "upsertProfile": upsert_profile,
    "deleteProfile": delete_profile,
    "getModes": get_modes,
    "getModels": get_models,
    "getCommands": get_commands,
}
