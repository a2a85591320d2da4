from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.config.customizations import FileCustomizations
from joey.config.untrusted_files import (
    UntrustedFileReader,
    YamlError,
    locate_config_directories,
    parse_yaml,
)
from joey.core.modes import BUILT_IN_MODES, Grant, Mode, ModePromptOverride, ToolGroup
from tests.harness.config.customization_files import Disk, mode_of

POET = """\
customModes:
  - slug: poet
    name: Poet
    roleDefinition: You are Roo, a poet.
    groups: [read]
"""


def custom(customizations: FileCustomizations) -> list[Mode]:
    return [mode for mode in customizations.modes if mode.source != "built-in"]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def entry(**changes: Any) -> dict[str, Any]:
    return {"slug": "poet", "name": "Poet", "roleDefinition": "A poet.", "groups": []} | changes


def write(disk: Disk, *entries: Any) -> None:
    disk.write({".roomodes": json.dumps({"customModes": entries})})


@pytest.mark.contract("modes:fields")
def test_every_field_of_a_mode_is_read(disk: Disk) -> None:
    disk.write(
        {
            ".roomodes": """\
customModes:
  - slug: docs-writer
    name: 📝 Docs
    description: Writes the manual
    roleDefinition: |-
      You are Roo, a writer.
      You are brief.
    whenToUse: For everything in docs/.
    customInstructions: Use short sentences.
    groups:
      - read
      - - edit
        - fileRegex: \\.(md|mdx)$
          description: Markdown files only
      - browser
      - command
      - mcp
      - modes
"""
        }
    )
    assert custom(disk.load_customizations()) == [
        Mode(
            slug="docs-writer",
            name="📝 Docs",
            role="You are Roo, a writer.\nYou are brief.",
            when_to_use="For everything in docs/.",
            grants=(
                Grant(ToolGroup.READ),
                Grant(ToolGroup.EDIT, r"\.(md|mdx)$", "Markdown files only"),
                Grant(ToolGroup.BROWSER),
                Grant(ToolGroup.COMMAND),
                Grant(ToolGroup.MCP),
            ),
            custom_instructions="Use short sentences.",
            description="Writes the manual",
            source="project",
        )
    ]
    assert disk.load_customizations().warnings == ()


@pytest.mark.contract("modes:fields")
def test_a_project_comes_before_the_user_and_both_before_what_is_built_in(disk: Disk) -> None:
    def named(name: str, *slugs: str) -> str:
        return json.dumps({"customModes": [entry(slug=slug, name=name) for slug in slugs]})

    disk.write(
        {
            ".roomodes": named("project", "a", "code"),
            "~/.roo/modes.yaml": named("ours", "a", "b"),
            "~/.roo/custom_modes.yaml": named("roo", "b", "c"),
        }
    )
    modes = {mode.slug: mode.name for mode in disk.load_customizations().modes}
    built_in = {mode.slug: mode.name for mode in BUILT_IN_MODES}
    assert modes == built_in | {"code": "project", "a": "project", "b": "ours", "c": "roo"}
    assert list(modes)[-3:] == ["a", "b", "c"]


@pytest.mark.contract("modes:fields")
@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (entry(slug="two words"), "mode 'two words' is not used: `slug` may have letters"),
        (entry(slug=None), "mode number 2 is not used: `slug` is missing."),
        (entry(name=""), "mode 'poet' is not used: `name` is missing."),
        (entry(roleDefinition=["a"]), "mode 'poet' is not used: `roleDefinition` must be text."),
        (entry(whenToUse={"a": "b"}), "mode 'poet' is not used: `whenToUse` must be text."),
        ({k: v for k, v in entry().items() if k != "groups"}, "`groups` is missing"),
        (entry(groups="read"), "`groups` must be a list."),
        (entry(groups=[{"edit": {}}]), "`groups` must hold names, or pairs"),
        (entry(groups=["read", "read"]), "`groups` has 'read' twice."),
        (entry(groups=[["edit", {"fileRegex": "("}]]), "`fileRegex` cannot be used: it"),
        (entry(groups=[["edit", {"fileRegex": ["x"]}]]), "`fileRegex` must be text."),
        ("poet", "mode number 2 is not used: it must be an object."),
    ],
)
def test_a_broken_mode_is_dropped_alone_and_named(disk: Disk, broken: Any, complaint: str) -> None:
    write(disk, entry(slug="first"), broken, entry(slug="last"))
    customizations = disk.load_customizations()
    assert [mode.slug for mode in custom(customizations)] == ["first", "last"]
    (warning,) = customizations.warnings
    assert warning.startswith(".roomodes: mode ")
    assert complaint in warning


def test_the_second_mode_of_a_slug_is_dropped(disk: Disk) -> None:
    write(disk, entry(name="one"), entry(name="two"))
    customizations = disk.load_customizations()
    assert [mode.name for mode in custom(customizations)] == ["one"]
    assert customizations.warnings == (
        ".roomodes: mode 'poet' is not used: `slug` is already used by an earlier mode.",
    )


def test_a_group_that_is_not_known_grants_nothing_and_is_reported(disk: Disk) -> None:
    write(disk, entry(groups=["read", "magic", "always"]))
    customizations = disk.load_customizations()
    assert mode_of(customizations, "poet").grants == (Grant(ToolGroup.READ),)
    assert [warning.split(": ", 2)[2] for warning in customizations.warnings] == [
        "`groups` has 'magic', which is unknown and grants nothing.",
        "`groups` has 'always', which is unknown and grants nothing.",
    ]


@pytest.mark.contract("modes:fields")
@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + POET,
        POET.replace("  -", "  –").replace("name: Poet", "name: “Poet”"),
        POET.replace("poet\n", "po\u200bet\n", 1).replace("    name", "\u00a0\u00a0  name"),
        POET.replace("\n", "\r\n"),
        json.dumps(
            {"customModes": [entry(groups=["read"], roleDefinition="You are Roo, a poet.")]}
        ),
        '{"customModes": [\n\t{"slug": "poet", "name": "Poet",\n\t"roleDefinition":'
        ' "You are Roo, a poet.", "groups": ["read"]}]}',
    ],
    ids=["bom", "typography", "invisible", "crlf", "json", "json-with-tabs"],
)
def test_files_are_cleaned_of_what_editors_put_in(disk: Disk, text: str) -> None:
    disk.write({".roomodes": text})
    customizations = disk.load_customizations()
    assert customizations.warnings == ()
    (poet,) = custom(customizations)
    assert (poet.slug, poet.name, poet.role) == ("poet", "Poet", "You are Roo, a poet.")
    assert poet.grants == (Grant(ToolGroup.READ),)


def test_cleaning_that_would_spoil_a_file_is_left_out(disk: Disk) -> None:
    disk.write({".roomodes": POET.replace("You are Roo, a poet.", "'It’s a poet 👩\u200d🎨.'")})
    (poet,) = custom(disk.load_customizations())
    assert poet.role == "It’s a poet 👩\u200d🎨."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: b\ncustomModes: }", "line 2: "),
        ("modes: []", "it must have a list `customModes`"),
        ("- a", "it must have a list `customModes`"),
        ("customModes:\n  slug: x", "it must have a list `customModes`"),
        ("customModes: " + "[" * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        (POET + "#" * 300_000, "it has more than 256,000 bytes"),
    ],
    ids=["unfinished", "other-key", "list", "mapping", "deep-flow", "deep-block", "huge"],
)
def test_a_file_that_is_none_is_reported_and_nothing_else_happens(
    disk: Disk, text: str, complaint: str
) -> None:
    disk.write({".roomodes": text})
    customizations = disk.load_customizations()
    assert customizations.modes == BUILT_IN_MODES
    assert any(
        warning.startswith(".roomodes is not used: ") and complaint in warning
        for warning in customizations.warnings
    )


@pytest.mark.parametrize("text", ["", "  \n", "customModes:", "customModes: []", "# nothing"])
def test_a_file_without_modes_is_fine(disk: Disk, text: str) -> None:
    disk.write({".roomodes": text})
    assert (disk.load_customizations().modes, disk.load_customizations().warnings) == (
        BUILT_IN_MODES,
        (),
    )


def test_references_and_tags_of_yaml_do_no_harm() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert set(parse_yaml(bomb)) == set("abcdefghi")
    assert parse_yaml("<<: {a: b}") == {"<<": {"a": "b"}}
    assert parse_yaml("a: !!python/object/apply:os.system [ls]") == {"a": ["ls"]}
    with pytest.raises(YamlError, match="undefined alias"):
        parse_yaml("a: *b")


@settings(max_examples=100)
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_whatever_is_in_the_file_there_are_modes(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    from joey.config.custom_modes import load_modes

    root = tmp_path_factory.mktemp("any")
    (root / ".roomodes").write_bytes(data)
    scopes = locate_config_directories(
        workspace=root, joey_home=root / "home", user_home=root, is_hidden=lambda path: False
    )
    assert isinstance(load_modes(scopes, UntrustedFileReader()), tuple)


def test_settings_change_the_text_of_built_in_modes(disk: Disk) -> None:
    prompts = {"ask": ModePromptOverride(role_definition="You know it all.")}
    assert (
        mode_of(disk.load_customizations(custom_mode_prompts=prompts), "ask").role
        == "You know it all."
    )


def test_a_link_to_a_file_elsewhere_is_not_followed(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(POET)
    disk.link(".roomodes", tmp_path / "elsewhere")
    customizations = disk.load_customizations()
    assert customizations.modes == BUILT_IN_MODES
    assert customizations.warnings == (
        ".roomodes is not read: it is a link that leads out of the workspace.",
    )


def test_a_file_with_entries_without_end_is_given_up_early(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write({".roomodes": f"customModes: [{'a,' * 100_000}]"})
    assert disk.load_customizations().warnings == (
        ".roomodes is not used: line 1: there are too many entries.",
    )


def test_half_a_character_in_a_name_spoils_the_file_and_not_the_prompt(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    mode = {"slug": "x", "name": "a\ud800", "roleDefinition": "r", "groups": []}
    disk.write({".roomodes": json.dumps({"customModes": [mode]})})
    customizations = disk.load_customizations()
    assert custom(customizations) == []
    assert ".roomodes is not used" in customizations.warnings[0]
