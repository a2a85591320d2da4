"""`joey config`: settings looked at and changed through the real program."""

from __future__ import annotations

import json
import stat

import pytest
from msgspec import structs

from joey.core.settings import Profile, Settings
from tests.harness.cli.binary import Joey
from tests.harness.cli.terminal import terminal

KEY = "sk-ant-canary-0123456789abcdefwxyz"


@pytest.mark.contract("cli:config")
async def test_the_list_has_every_setting_with_its_meaning_and_where_it_comes_from(
    joey: Joey,
) -> None:
    joey.settings(maxRetries=9)
    (joey.workspace / ".roo").mkdir()
    project = {"alwaysAllowReadOnly": False, "deniedCommands": ["git push"]}
    (joey.workspace / ".roo/settings.json").write_text(json.dumps(project))
    done = await joey.run("config", "list", "--json", env={**joey.env, "ANTHROPIC_API_KEY": KEY})
    listed = {entry["key"]: entry for entry in done.json}
    known = {field.encode_name for field in structs.fields(Settings)}
    assert known <= set(listed)
    assert all(listed[name]["description"].endswith(".") for name in known)
    assert (listed["maxRetries"]["value"], listed["maxRetries"]["from"]) == (9, "yours")
    assert (listed["alwaysAllowReadOnly"]["value"]) is False
    assert listed["alwaysAllowReadOnly"]["from"] == "project"
    assert listed["deniedCommands"]["from"] == "project"
    assert listed["sandbox"]["from"] == "default"
    assert listed["profile.apiKey"]["from"] == "ANTHROPIC_API_KEY"
    assert KEY not in done.out
    assert listed["profile.apiKey"]["value"] == "…wxyz"


async def test_every_key_of_settings_and_profiles_is_described() -> None:
    from joey.config.config_keys import describe_profile_keys, describe_setting_keys

    described = {**describe_setting_keys(), **describe_profile_keys()}
    assert [
        name for name, key in described.items() if not key.description.endswith((".", "…"))
    ] == []
    wanted = {field.encode_name for kind in (Settings, Profile) for field in structs.fields(kind)}
    assert set(described) == wanted - {"name"}


@pytest.mark.contract("cli:config")
@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("alwaysAllowWrite", "true"), True),
        (("always-allow-write", "yes"), True),
        (("maxRetries", "3"), 3),
        (("requestDelaySeconds", "0.5"), 0.5),
        (("sandbox", "required"), "required"),
        (("mode", "ask"), "ask"),
        (("language", '"de"'), "de"),
        (("allowedCommands", "npm test", "git status"), ["npm test", "git status"]),
        (("allowedCommands", '["npm test"]'), ["npm test"]),
        (("allowedCommands", "git status"), ["git status"]),
        (("allowedCommands", "git"), ["git"]),
        (("sandboxReadable", "/a", "/b"), ["/a", "/b"]),
        (("allowedCommands", "--add", "a", "--add", "b", "--add", "a"), ["a", "b"]),
        (("diagnosticCheckers", '{"*.py": "ruff {file}"}'), {"*.py": "ruff {file}"}),
        (("allowedMaxCost", "2"), 2),
        (("maxReadFileLine", "--", "-1"), -1),
    ],
)
async def test_a_value_is_taken_for_what_its_setting_is(
    joey: Joey, arguments: tuple[str, ...], value: object
) -> None:
    done = await joey.run("config", "set", *arguments)
    assert done.code == 0, done.err
    document = json.loads((joey.home / "settings.json").read_text())
    assert list(document.values()) == [value]
    got = await joey.run("config", "get", arguments[0], "--json")
    assert got.json == value


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("sandbx", "off"), "there is no setting `sandbx`. Did you mean `sandbox`?"),
        (("sandbox", "of"), '`sandbox` can be auto, off or required, not "of". Did you mean off?'),
        (("alwaysAllowWrite", "maybe"), "`alwaysAllowWrite` can be true or false"),
        (("maxRetries", "four"), "`maxRetries` must be a whole number"),
        (("sandboxNetwork", "on"), "can be off, registries, all or list of texts: `on` in"),
        (("mode", "a", "b"), "`mode` takes one value"),
        (("mode", "--add", "x"), "`mode` is not a list"),
        (("allowedCommands", "--remove", "x"), "`allowedCommands` does not have 'x'"),
        (("mode",), "give a value"),
        (
            ("allowedCommands", "git", "status"),
            "`allowedCommands` holds commands, and these words could be one command or 2. One:"
            " 'git status'; 2: --add git --add status",
        ),
        (("diagnosticCheckers", '{"*.py": "x"'), "must be an object of texts: this is not valid"),
        (("hooks", '[{"event": "never", "command": "x"}]'), "`hooks` must be"),
        (("allowedMaxCost", "NaN"), "`allowedMaxCost` must be a number"),
        (("allowedMaxCost", "1e999"), "`allowedMaxCost` must be a number"),
        (("customInstructions", "a\udcff"), "`customInstructions` must be a text"),
    ],
)
async def test_what_does_not_fit_is_refused_and_nothing_is_written(
    joey: Joey, arguments: tuple[str, ...], complaint: str
) -> None:
    done = await joey.run("config", "set", *arguments)
    assert done.code == 2
    assert complaint in done.err
    assert not (joey.home / "settings.json").exists()


async def test_a_change_keeps_what_is_not_known_and_the_order_and_is_private(joey: Joey) -> None:
    joey.settings(zebra={"a": 1}, mode="code", soundEnabled=True)
    await joey.run("config", "set", "mode", "ask")
    await joey.run("config", "set", "maxRetries", "2")
    await joey.run("config", "unset", "maxRetries")
    file = joey.home / "settings.json"
    assert list(json.loads(file.read_text()).items()) == [
        ("zebra", {"a": 1}),
        ("mode", "ask"),
        ("soundEnabled", True),
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_slips_in_the_file_are_named_and_can_be_removed(joey: Joey) -> None:
    joey.settings(sandbx="off", maxRetries="four", maxTurns=True)
    listed = await joey.run("config", "list")
    assert listed.code == 78
    assert "`maxRetries`" in listed.err
    assert (await joey.run("config", "unset", "maxRetries")).code == 0
    listed = await joey.run("config", "list")
    assert "`sandbx` is not used: there is no such setting. Did you mean `sandbox`?" in listed.err
    assert (await joey.run("config", "unset", "sandbx")).code == 0
    assert json.loads((joey.home / "settings.json").read_text()) == {"maxTurns": True}


async def test_a_setting_is_described_with_what_it_may_be(joey: Joey) -> None:
    done = await joey.run("config", "describe", "sandbox")
    for text in ("Sandbox commands", "auto or off or required", "default:  auto", "config set"):
        assert text in done.out


async def test_setting_what_a_project_makes_stricter_prints_a_warning(joey: Joey) -> None:
    (joey.workspace / ".roo").mkdir()
    (joey.workspace / ".roo/settings.json").write_text('{"sandbox": "required"}')
    done = await joey.run("config", "set", "sandbox", "off")
    assert "in this folder it stays required" in done.err


async def test_config_edit_names_the_command_to_edit_the_file(joey: Joey) -> None:
    done = await joey.run("config", "edit")
    assert done.code == 2
    assert """$EDITOR "$(joey config path)\"""" in done.err


@pytest.mark.parametrize("width", [60, 80, 120, 200])
async def test_on_a_terminal_the_list_is_a_table_within_its_width(joey: Joey, width: int) -> None:
    async with terminal(joey, "config", "list", columns=width) as screen:
        assert await screen.ended() == 0
        lines = screen.text.splitlines()
    assert lines[0].split()[:3] == ["setting", "value", "from"]
    assert max(map(len, lines)) <= width
    assert "The mode in which a task starts" in screen.text
