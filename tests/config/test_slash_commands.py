from __future__ import annotations

from pathlib import Path

import pytest

from joey.core.modes import SlashCommand
from tests.harness.config.customization_files import Disk


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.mark.contract("modes:fields")
def test_commands_have_front_matter_and_text(disk: Disk) -> None:
    disk.write(
        {
            ".roo/commands/deploy.md": "---\ndescription: Ship\n  it\nargument-hint: <server>\n"
            "mode: code\n---\n\nBuild it.\n\n---\nThen ship it.\n",
            "~/.roo/commands/tidy-up.v2.md": "Tidy up.\n",
        }
    )
    deploy, init, review, tidy = disk.load_customizations().list_commands()
    assert deploy == SlashCommand(
        name="deploy",
        content="Build it.\n\n---\nThen ship it.",
        description="Ship it",
        argument_hint="<server>",
        mode="code",
        source="project",
    )
    assert tidy == SlashCommand(name="tidy-up.v2", content="Tidy up.", source="global")
    assert (init.name, init.source) == ("init", "built-in")
    assert "AGENTS.md" in init.content
    assert (review.name, review.source) == ("review", "built-in")


def test_the_projects_command_hides_the_users_and_that_hides_ours(disk: Disk) -> None:
    disk.write({"~/.roo/commands/init.md": "mine", "~/.roo/commands/a.md": "mine"})
    disk.write({"~/.roo/commands/review.md": "my review"})
    disk.write({".roo/commands/a.md": "the project's"})
    found = {
        command.name: command.content for command in disk.load_customizations().list_commands()
    }
    assert found == {"a": "the project's", "init": "mine", "review": "my review"}


def test_commands_of_claude_code_count_where_no_other_has_their_name(disk: Disk) -> None:
    places = [".roo", ".claude", "~/.roo", "~/.claude"]
    disk.write({f"{place}/commands/fix.md": f"as in {place}" for place in places})
    for place in places:
        fix, *_ = disk.load_customizations().list_commands()
        assert fix.content == f"as in {place}"
        disk.path(f"{place}/commands/fix.md").unlink()


def test_what_cannot_be_a_command_is_reported(disk: Disk) -> None:
    disk.write(
        {
            ".roo/commands/two words.md": "x",
            ".roo/commands/notes.txt": "not a command",
            ".roo/commands/broken.md": "---\ndescription: [\n---\nStill said.",
            ".roo/commands/listed.md": "---\n- a\n---\nStill said.",
            ".roo/commands/folder.md/x": "x",
        }
    )
    customizations = disk.load_customizations()
    found = {command.name: command.content for command in customizations.list_commands()}
    assert {"broken": "Still said.", "listed": "Still said."}.items() <= found.items()
    assert set(found) == {"broken", "init", "listed", "review"}
    assert sorted(warning.partition(".md")[0] for warning in customizations.warnings) == [
        ".roo/commands/broken",
        ".roo/commands/folder",
        ".roo/commands/listed",
        ".roo/commands/two words",
    ]


def test_a_command_that_links_to_a_secret_is_not_read(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("PRIVATE")
    disk.link(".roo/commands/steal.md", tmp_path / "secret")
    customizations = disk.load_customizations()
    assert [command.name for command in customizations.list_commands()] == ["init", "review"]
    assert customizations.warnings
