"""`joey import`: what Roo Code, Zoo Code or Kilo Code has exported, with the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey
from tests.harness.config.roo_keys import (
    KEYS_AND_ADDRESSES,
    PROVIDERS_WITHOUT_COUNTERPART,
    build_roo_profile,
)

MODE = {
    "slug": "docs",
    "name": "Docs",
    "roleDefinition": "You write: docs.",
    "groups": ["read", ["edit", {"fileRegex": r"\.md$", "description": "documents"}]],
    "source": "global",
}
OWN_MODES = """\
# mine
customModes:
- slug: mine
  name: Mine
  roleDefinition: You are mine.
  groups: [read]
"""


def write_export(joey: Joey, settings: dict[str, Any] | None = None, **profiles: Any) -> Path:
    path = joey.home.parent / "Downloads" / "roo-code-settings.json"
    path.parent.mkdir(exist_ok=True)
    named = {"currentApiConfigName": next(iter(profiles), ""), "apiConfigs": profiles}
    document = {"providerProfiles": named, "globalSettings": settings or {}}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def read_home(joey: Joey) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in joey.home.glob("*") if path.is_file()}


async def test_profiles_of_all_providers_are_imported_once(joey: Joey) -> None:
    named = {
        name: build_roo_profile(name) | {"id": f"id-{name}"} for name in sorted(KEYS_AND_ADDRESSES)
    }
    path = write_export(joey, {"modeApiConfigs": {"code": "id-xai"}}, **named)
    first = await joey.run("import", str(path), "--yes")
    assert first.code == 0, first.err
    stored = json.loads((joey.home / "profiles.json").read_bytes())
    assert stored == {"profiles": named, "active": "anthropic"}
    assert (joey.home / "profiles.json").stat().st_mode & 0o777 == 0o600
    assert all(f"key-of-{name}" not in first.out + first.err for name in named)
    before = read_home(joey)
    second = await joey.run("import", str(path), "--yes")
    assert (second.code, second.err) == (0, "")
    assert "Nothing to store" in second.out
    assert read_home(joey) == before


async def test_profiles_of_the_clouds_come_with_all_their_keys(joey: Joey) -> None:
    named: dict[str, Any] = {
        "bedrock": {
            "apiProvider": "bedrock",
            "apiModelId": "the-model",
            "awsAccessKey": "access-key",
            "awsSecretKey": "secret-key",
            "awsSessionToken": "session-token",
            "awsRegion": "eu-west-1",
        },
        "vertex": {
            "apiProvider": "vertex",
            "apiModelId": "the-model",
            "vertexJsonCredentials": '{"type": "service_account"}',
            "vertexProjectId": "project",
            "vertexRegion": "europe-west1",
        },
        "azure": {
            "apiProvider": "openai",
            "openAiUseAzure": True,
            "openAiBaseUrl": "https://name.openai.azure.com",
            "openAiApiKey": "azure-key",
            "openAiModelId": "the-model",
        },
    }
    path = write_export(joey, **named)
    run = await joey.run("import", str(path), "--yes", "--json")
    assert run.code == 0, run.err
    assert [each["provider"] for each in run.json["profiles"]] == list(named)
    assert [len(each["secrets"]) for each in run.json["profiles"]] == [3, 1, 1]
    stored = json.loads((joey.home / "profiles.json").read_bytes())
    assert stored == {"profiles": named, "active": "bedrock"}
    assert "Nothing to store" in (await joey.run("import", str(path), "--yes")).out


async def test_a_provider_that_joey_cannot_use_is_left_out_with_another(joey: Joey) -> None:
    named = {name: {"apiProvider": name} for name in PROVIDERS_WITHOUT_COUNTERPART}
    run = await joey.run("import", str(write_export(joey, **named)), "--json")
    assert run.json["profiles"] == []
    left_out = {each["name"]: each["reason"] for each in run.json["leftOut"]}
    for name, instead in PROVIDERS_WITHOUT_COUNTERPART.items():
        assert instead in left_out[f"profile {name}"]


async def test_nothing_is_stored_without_an_answer(joey: Joey) -> None:
    path = write_export(joey, {"alwaysAllowWrite": True}, mine=build_roo_profile("xai"))
    for flags in ([], ["--dry-run"], ["--json"]):
        run = await joey.run("import", str(path), *flags)
        assert run.code == (0 if flags else 2)
        assert "alwaysAllowWrite" in run.out
        assert read_home(joey) == {}
    assert "add -y to store it" in (await joey.run("import", str(path))).err


async def test_keys_can_be_left_out(joey: Joey) -> None:
    write_export(joey, mine={"apiProvider": "xai", "apiModelId": "grok", "xaiApiKey": "k-123456"})
    run = await joey.run("import", "--roo", "--no-keys", "-y")
    assert run.code == 0, run.err
    entry = json.loads((joey.home / "profiles.json").read_bytes())["profiles"]["mine"]
    assert entry == {"apiProvider": "xai", "apiModelId": "grok"}


async def test_a_different_profile_of_the_same_name_stays(joey: Joey) -> None:
    joey.home.mkdir()
    own = {"provider": "ollama", "model": "mine"}
    document = {"profiles": {"mine": own}, "active": "mine"}
    (joey.home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
    path = write_export(joey, mine={"apiProvider": "xai", "apiModelId": "grok"})
    run = await joey.run("import", str(path), "-y")
    assert "a different mine exists already" in run.out
    stored = json.loads((joey.home / "profiles.json").read_bytes())
    assert stored["active"] == "mine"
    assert stored["profiles"]["mine"] == own
    assert stored["profiles"]["mine-roo"]["apiModelId"] == "grok"
    assert "Nothing to store" in (await joey.run("import", str(path), "-y")).out


async def test_no_profile_takes_the_place_of_another(joey: Joey) -> None:
    joey.home.mkdir()
    own = {name: {"provider": "ollama", "model": "own"} for name in ("mine", "mine-roo")}
    document = {"profiles": own, "active": "mine"}
    (joey.home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
    given = {name: {"apiProvider": "xai", "apiModelId": name} for name in ("mine", "mine-roo")}
    path = write_export(joey, **given)
    run = await joey.run("import", str(path), "-y")
    assert run.code == 0, run.err
    stored = json.loads((joey.home / "profiles.json").read_bytes())["profiles"]
    assert {name: stored.pop(name) for name in own} == own
    assert sorted(stored) == ["mine-roo-2", "mine-roo-roo"]
    assert sorted(each["apiModelId"] for each in stored.values()) == ["mine", "mine-roo"]
    assert "Nothing to store" in (await joey.run("import", str(path), "-y")).out


async def test_two_profiles_of_a_file_never_share_a_name(joey: Joey) -> None:
    joey.home.mkdir()
    document = {"profiles": {"mine": {"provider": "ollama", "model": "own"}}, "active": "mine"}
    (joey.home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
    given = {name: {"apiProvider": "xai", "apiModelId": name} for name in ("mine", "mine-roo")}
    path = write_export(joey, **given)
    assert (await joey.run("import", str(path), "-y")).code == 0
    stored = json.loads((joey.home / "profiles.json").read_bytes())["profiles"]
    assert {each.get("apiModelId") for each in stored.values()} == {None, "mine", "mine-roo"}
    assert "Nothing to store" in (await joey.run("import", str(path), "-y")).out


async def test_a_profile_that_is_changed_by_a_later_export_is_named(joey: Joey) -> None:
    first = {"id": "1", "apiProvider": "xai", "apiModelId": "grok"}
    await joey.run("import", str(write_export(joey, mine=first)), "-y")
    run = await joey.run("import", str(write_export(joey, mine=first | {"apiModelId": "new"})))
    assert "changes the one here" in run.out


async def test_keys_in_headers_and_addresses_are_keys(joey: Joey) -> None:
    profile = {
        "apiProvider": "openai",
        "openAiModelId": "m",
        "openAiBaseUrl": "https://user:PASSWORD-99@models.example/v1",
        "openAiHeaders": {"Authorization": "Bearer HEADER-99"},
    }
    path = write_export(joey, mine=profile)
    assert "with 2 keys" in (await joey.run("import", str(path))).out
    assert (await joey.run("import", str(path), "--no-keys", "-y")).code == 0
    entry = json.loads((joey.home / "profiles.json").read_bytes())["profiles"]["mine"]
    assert entry == {
        "apiProvider": "openai",
        "openAiModelId": "m",
        "openAiBaseUrl": "https://models.example/v1",
    }
    assert "Nothing to store" in (await joey.run("import", str(path), "--no-keys", "-y")).out


async def test_names_that_joey_could_not_store_are_left_out(joey: Joey) -> None:
    names = ("", " ", "two\nlines", "\x1b[31mred", "half\ud800")
    path = write_export(joey, **{name: {"apiProvider": "xai"} for name in (*names, "good")})
    run = await joey.run("import", str(path), "-y")
    assert run.code == 0, run.err
    stored = json.loads((joey.home / "profiles.json").read_bytes())["profiles"]
    assert list(stored) == ["good"]
    assert run.out.count("is not a valid profile name") == len(names)


async def test_texts_that_no_file_can_hold_are_left_out(joey: Joey) -> None:
    half = "half \ud800"
    settings = {"customInstructions": half, "customModes": [MODE | {"roleDefinition": half}]}
    profiles = {"odd": {"apiProvider": "xai", "apiModelId": half}, "good": {"apiProvider": "xai"}}
    run = await joey.run("import", str(write_export(joey, settings, **profiles)), "-y")
    assert run.code == 0, run.err
    assert list(read_home(joey)) == ["profiles.json"]
    assert list(json.loads((joey.home / "profiles.json").read_bytes())["profiles"]) == ["good"]
    for name in ("profile odd", "customInstructions", "mode number 1"):
        assert any(name in line and "no file can hold" in line for line in run.out.splitlines())


async def test_a_mode_comes_once_and_a_list_of_modes_is_a_list(joey: Joey) -> None:
    path = write_export(joey, {"customModes": [MODE, MODE | {"name": "Other"}]})
    run = await joey.run("import", str(path), "--json")
    assert run.json["modes"] == ["docs"]
    assert [each["name"] for each in run.json["leftOut"]] == ["mode docs"]
    odd = await joey.run("import", str(write_export(joey, {"customModes": "none"})), "--json")
    assert [each["name"] for each in odd.json["leftOut"]] == ["customModes"]


async def test_what_is_left_out_has_a_reason(joey: Joey) -> None:
    settings = {
        "telemetrySetting": "enabled",
        "taskHistory": [],
        "maxWorkspaceFiles": "many",
        "inventedSetting": 1,
        "allowedMaxRequests": None,
        "customModes": [{"slug": "broken"}],
    }
    path = write_export(joey, settings, editor={"apiProvider": "vscode-lm"})
    run = await joey.run("import", str(path), "--json")
    assert not any(run.json[part] for part in ("profiles", "settings", "modes"))
    left_out = {each["name"]: each["reason"] for each in run.json["leftOut"]}
    assert "only be used in it" in left_out["profile editor"]
    assert "only the editor" in left_out["telemetrySetting"]
    assert "whole number" in left_out["maxWorkspaceFiles"]
    assert left_out["inventedSetting"] == "joey does not have this setting"
    assert "name" in left_out["mode number 1"]
    assert "allowedMaxRequests" not in left_out


@pytest.mark.parametrize("own", ["", OWN_MODES, '{"customModes": []}', "customModes:\n"])
async def test_modes_join_those_that_are_here(joey: Joey, own: str) -> None:
    joey.home.mkdir()
    file = joey.home / "custom_modes.yaml"
    if own:
        file.write_text(own, encoding="utf-8")
    path = write_export(joey, {"customModes": [MODE]})
    run = await joey.run("import", str(path), "-y")
    assert run.code == 0, run.err
    text = file.read_text(encoding="utf-8")
    assert text.startswith(own if own == OWN_MODES else "customModes:")
    listed = await joey.run("modes", "list", "--json")
    slugs = {each["slug"] for each in listed.json}
    assert {"docs", *(["mine"] if own == OWN_MODES else [])} <= slugs
    assert "Nothing to store" in (await joey.run("import", str(path), "-y")).out


async def test_an_imported_profile_reaches_its_model(joey: Joey) -> None:
    async with ModelServer([Turn(call("attempt_completion", {"result": "hello"}))]) as model:
        write_export(joey, mine=build_roo_profile("openai", base_url=f"{model.url}/v1"))
        assert (await joey.run("import", "--roo", "-y")).code == 0
        run = await joey.run("-p", "go")
    assert (run.code, run.out) == (0, "hello\n"), run.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "does not exist"),
        ("{", "not valid JSON"),
        ("[]", "must hold a JSON object"),
        ('{"mcpServers": {}}', "is not a settings export"),
        ('{"providerProfiles": {"apiConfigs": []}}', "is not a settings export"),
    ],
)
async def test_another_file_is_refused_with_how_to_export(
    joey: Joey, text: str | None, said: str
) -> None:
    path = joey.home.parent / "other.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    run = await joey.run("import", str(path))
    assert run.code == 78
    assert said in run.err
    assert read_home(joey) == {}


async def test_without_a_file_joey_says_where_to_get_one(joey: Joey) -> None:
    for flags in ([], ["--roo"]):
        run = await joey.run("import", *flags)
        assert run.code == 2
        assert "Export" in run.err
