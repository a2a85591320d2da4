"""Commands about settings, profiles, modes, slash commands, models; secrets never come out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.modes import Mode, SlashCommand
from joey.core.redaction import remove_secrets
from joey.core.wire.commands import (
    ActiveProfile,
    Commands,
    Configuration,
    Done,
    GetModels,
    ModeInfo,
    Models,
    Modes,
    ProfileData,
    ProfileEntry,
    ProfileId,
    ProfileName,
    ProfileNames,
    SetConfiguration,
)
from joey.core.wire.events import ModePayload, ProfilePayload
from joey.errors import ConfigError
from joey.server.commands.call import CommandCall, invalid

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def get_configuration(hub: ServerHub, call: CommandCall) -> Configuration:
    preferences = hub.setup.preferences
    profiles = preferences.load_profiles()
    document = {**preferences.read_settings_document(), "currentApiConfigName": profiles.active}
    if active := profiles.profiles.get(profiles.active):
        document |= {"apiProvider": active.provider, "apiModelId": active.model}
    return Configuration(configuration=remove_secrets(document))


async def set_configuration(hub: ServerHub, call: CommandCall) -> Done:
    asked: SetConfiguration = call.arguments
    preferences = hub.setup.preferences
    before = preferences.read_settings_document().get("mode")
    profiles = preferences.load_profiles()
    mode = asked.values.get("mode")
    if mode is not None:
        modes = await asyncio.to_thread(hub.setup.list_modes)
        if mode not in [known.slug for known in modes]:
            raise invalid("arguments.values.mode", "there is no such mode.")
    try:
        preferences.update_settings_and_profile(asked.values)
    except ConfigError as error:
        raise invalid("arguments.values", str(error)) from error
    after = preferences.read_settings_document().get("mode")
    if after != before:
        hub.announce("modeChanged", ModePayload(mode=str(after)))
    if preferences.load_profiles() != profiles:
        _announce_profile(hub)
    return Done()


async def get_profiles(hub: ServerHub, call: CommandCall) -> ProfileNames:
    return ProfileNames(profiles=sorted(hub.setup.preferences.load_profiles().profiles))


async def get_active_profile(hub: ServerHub, call: CommandCall) -> ActiveProfile:
    profiles = hub.setup.preferences.load_profiles()
    known = profiles.active in profiles.profiles
    return ActiveProfile(active_profile=profiles.active if known else None)


async def set_active_profile(hub: ServerHub, call: CommandCall) -> ActiveProfile:
    asked: ProfileName = call.arguments
    _check_exists(hub, asked.name)
    hub.setup.preferences.activate_profile(asked.name)
    _announce_profile(hub)
    return ActiveProfile(active_profile=asked.name)


async def get_profile_entry(hub: ServerHub, call: CommandCall) -> ProfileData:
    asked: ProfileName = call.arguments
    _check_exists(hub, asked.name)
    entry = hub.setup.preferences.get_profile_entry(asked.name)
    return ProfileData(profile=remove_secrets(entry))


async def create_profile(hub: ServerHub, call: CommandCall) -> ProfileId:
    return _save(hub, call, exists=False)


async def update_profile(hub: ServerHub, call: CommandCall) -> ProfileId:
    return _save(hub, call, exists=True)


async def upsert_profile(hub: ServerHub, call: CommandCall) -> ProfileId:
    return _save(hub, call, exists=None)


def _save(hub: ServerHub, call: CommandCall, *, exists: bool | None) -> ProfileId:
    asked: ProfileEntry = call.arguments
    if exists is not None and exists != (
        asked.name in hub.setup.preferences.load_profiles().profiles
    ):
        problem = "does not exist" if exists else "exists already"
        raise invalid("arguments.name", f"the profile '{asked.name}' {problem}.")
    try:
        hub.setup.preferences.save_profile(asked.name, asked.profile or {}, activate=asked.activate)
    except ConfigError as error:
        raise invalid("arguments.profile", str(error)) from error
    if asked.activate:
        _announce_profile(hub)
    return ProfileId(profile_id=asked.name)


async def delete_profile(hub: ServerHub, call: CommandCall) -> Done:
    asked: ProfileName = call.arguments
    _check_exists(hub, asked.name)
    hub.setup.preferences.delete_profile(asked.name)
    _announce_profile(hub)
    return Done()


def _check_exists(hub: ServerHub, name: str) -> None:
    if name not in hub.setup.preferences.load_profiles().profiles:
        raise invalid("arguments.name", f"there is no profile '{name}'.")


def _announce_profile(hub: ServerHub) -> None:
    profiles = hub.setup.preferences.load_profiles()
    active = profiles.profiles.get(profiles.active)
    provider = active.provider if active else ""
    hub.announce("providerProfileChanged", ProfilePayload(name=profiles.active, provider=provider))


async def get_modes(hub: ServerHub, call: CommandCall) -> Modes:
    modes = await asyncio.to_thread(hub.setup.list_modes)
    return Modes(modes=[_mode(mode) for mode in modes])


def _mode(mode: Mode) -> ModeInfo:
    return ModeInfo(slug=mode.slug, name=mode.name, description=mode.description or mode.purpose)


async def get_models(hub: ServerHub, call: CommandCall) -> Models:
    asked: GetModels = call.arguments
    try:
        return Models(models=hub.setup.list_models(asked.provider))
    except ConfigError as error:
        raise invalid("arguments.provider", str(error)) from error


async def get_commands(hub: ServerHub, call: CommandCall) -> Commands:
    commands = await asyncio.to_thread(hub.setup.list_commands)
    return Commands(commands=[_command(command) for command in commands])


def _command(command: SlashCommand) -> dict[str, str]:
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
