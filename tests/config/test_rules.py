from __future__ import annotations

import os
from pathlib import Path

import pytest

from joey.config.rule_files import MAX_RULES_CHARS
from joey.core.modes import Instructions, RuleFile
from tests.harness.config.customization_files import Disk, rules_of


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def labels(files: tuple[RuleFile, ...]) -> list[str]:
    return [file.label for file in files]


@pytest.mark.contract("rules:order")
def test_rules_of_the_user_come_before_those_of_the_project_and_of_its_parts(
    disk: Disk,
) -> None:
    disk.write(
        {
            "~/.roo/rules/z.md": "everywhere",
            "~/.roo/rules-code/z.md": "everywhere in code",
            ".roo/rules/b.md": "here",
            ".roo/rules-code/b.md": "here in code",
            "x/.roo/rules/a.md": "in x",
            "x/y/.roo/rules-code/a.md": "in y",
            "x/y/.roo/rules-ask/a.md": "not in code",
        }
    )
    instructions = rules_of(disk.load_customizations(enable_subfolder_rules=True))
    assert labels(instructions.mode_rules) == [
        "~/.roo/rules-code/z.md",
        ".roo/rules-code/b.md",
        "x/y/.roo/rules-code/a.md",
    ]
    assert labels(instructions.rules) == [
        "~/.roo/rules/z.md",
        ".roo/rules/b.md",
        "x/.roo/rules/a.md",
    ]
    assert [file.text for file in instructions.rules] == ["everywhere", "here", "in x"]
    without = rules_of(disk.load_customizations())
    assert labels(without.rules) == ["~/.roo/rules/z.md", ".roo/rules/b.md"]


@pytest.mark.contract("rules:order")
def test_files_are_listed_in_the_order_of_their_names_wherever_they_lie(disk: Disk) -> None:
    disk.write(
        {
            ".roo/rules/Beta.md": " beta \n\n",
            ".roo/rules/deep/er/alpha.txt": "alpha",
            ".roo/rules/gamma": "gamma",
            ".roo/rules/empty.md": " \n",
        }
    )
    assert rules_of(disk.load_customizations()).rules == (
        RuleFile(".roo/rules/deep/er/alpha.txt", "alpha"),
        RuleFile(".roo/rules/Beta.md", "beta"),
        RuleFile(".roo/rules/gamma", "gamma"),
    )


@pytest.mark.parametrize(
    "name", ["a.bak", ".DS_Store", "x.LOG", "y.swp", "Thumbs.db", "z.tmp", "w.lock", "v.pyc"]
)
def test_caches_and_copies_are_no_rules(disk: Disk, name: str) -> None:
    disk.write({f".roo/rules/{name}": "junk", ".roo/rules/a.md": "rule"})
    assert labels(rules_of(disk.load_customizations()).rules) == [".roo/rules/a.md"]


@pytest.mark.contract("rules:order")
def test_single_files_count_only_where_there_are_no_directories(disk: Disk) -> None:
    disk.write({".roorules": "roo", ".clinerules": "cline", ".clinerules-code": "cline code"})
    instructions = rules_of(disk.load_customizations())
    assert instructions.rules == (RuleFile(".roorules", "roo"),)
    assert instructions.mode_rules == (RuleFile(".clinerules-code", "cline code"),)
    disk.write({".roorules-code": "roo code"})
    assert rules_of(disk.load_customizations()).mode_rules == (
        RuleFile(".roorules-code", "roo code"),
    )
    disk.write({"~/.roo/rules/a.md": "everywhere", ".roo/rules-code/a.md": "folder"})
    instructions = rules_of(disk.load_customizations())
    assert labels(instructions.rules) == ["~/.roo/rules/a.md"]
    assert labels(instructions.mode_rules) == [".roo/rules-code/a.md"]


def test_a_directory_in_place_of_a_single_file_is_passed_over(disk: Disk) -> None:
    disk.write({".clinerules/a.md": "not ours"})
    customizations = disk.load_customizations()
    assert (rules_of(customizations), customizations.warnings) == (Instructions(), ())


@pytest.mark.contract("rules:order")
def test_agents_files_are_read_here_and_beside_nested_directories(disk: Disk) -> None:
    disk.write(
        {
            "AGENTS.md": "main",
            "AGENT.md": "never beside the other",
            "AGENTS.local.md": "mine",
            "web/AGENT.md": "web",
            "web/.roo/rules/a.md": "x",
            "api/AGENTS.md": "has no .roo",
        }
    )
    assert labels(rules_of(disk.load_customizations()).agent_rules) == [
        "AGENTS.md",
        "AGENTS.local.md",
    ]
    nested = rules_of(disk.load_customizations(enable_subfolder_rules=True)).agent_rules
    assert labels(nested) == ["AGENTS.md", "AGENTS.local.md", "web/AGENT.md"]
    assert rules_of(disk.load_customizations(use_agent_rules=False)).agent_rules == ()


def test_files_of_other_agents_count_where_there_are_none_of_ours(disk: Disk) -> None:
    disk.write({"CLAUDE.md": "claude", "CLAUDE.local.md": "mine", ".cursorrules": "cursor"})
    instructions = rules_of(disk.load_customizations())
    assert instructions.agent_rules == (
        RuleFile("CLAUDE.md", "claude"),
        RuleFile("CLAUDE.local.md", "mine"),
    )
    assert instructions.rules == (RuleFile(".cursorrules", "cursor"),)
    assert instructions.labels == ("CLAUDE.md", "CLAUDE.local.md", ".cursorrules")
    assert rules_of(disk.load_customizations(use_agent_rules=False)).agent_rules == ()
    disk.write({"AGENTS.md": "agents", "AGENTS.local.md": "ours", ".roorules": "roo"})
    instructions = rules_of(disk.load_customizations())
    assert instructions.labels == ("AGENTS.md", "AGENTS.local.md", ".roorules")


def test_what_is_hidden_is_described_by_its_patterns(disk: Disk) -> None:
    disk.write({".rooignore": "secrets/\n*.pem\n"})
    assert rules_of(disk.load_customizations()).ignore_rules == "secrets/\n*.pem"


def test_a_prompt_of_the_projects_own_is_read_for_its_mode_alone(disk: Disk) -> None:
    disk.write({".roo/system-prompt-ask": "Answer in {{language}}.\n"})
    customizations = disk.load_customizations()
    assert rules_of(customizations, "ask").system_prompt_override == "Answer in {{language}}."
    assert rules_of(customizations).system_prompt_override is None


@pytest.mark.contract("rules:order")
def test_a_huge_file_is_cut_with_a_note_to_both(disk: Disk) -> None:
    disk.write({".roo/rules/huge.md": "é" * 5 * 1024 * 1024})
    customizations = disk.load_customizations()
    (file,) = rules_of(customizations).rules
    assert len(file.text) < 101_000
    assert "[The file goes on: it has 10,485,760 bytes" in file.text
    assert "\ufffd" not in file.text
    assert customizations.warnings == (
        ".roo/rules/huge.md has 10,485,760 bytes; only the first 100,000 are used.",
    )


@pytest.mark.contract("rules:order")
def test_many_files_share_one_limit(disk: Disk) -> None:
    disk.write({f".roo/rules/{number:03}.md": "x" * 90_000 for number in range(9)})
    disk.write({".roo/rules-code/first.md": "mode rules come first"})
    customizations = disk.load_customizations()
    instructions = rules_of(customizations)
    assert instructions.mode_rules[0].text == "mode rules come first"
    assert sum(len(file.text) for file in instructions.rules) < MAX_RULES_CHARS + 1000
    assert instructions.rules[-1].text.endswith(
        "[Left out here, for want of room. Read it where you need it.]"
    )
    assert any("003.md is left out" in warning for warning in customizations.warnings)


def test_a_directory_with_too_many_files_is_reported(disk: Disk) -> None:
    disk.write({f".roo/rules/{number:04}.md": "x" for number in range(230)})
    customizations = disk.load_customizations()
    assert len(rules_of(customizations).rules) == 200
    assert any("more than 200 rules" in warning for warning in customizations.warnings)


@pytest.mark.contract("rules:order")
def test_links_inside_the_workspace_are_followed_and_sorted_by_their_own_names(
    disk: Disk,
) -> None:
    disk.write({"docs/style.md": "style", "docs/more/zebra.md": "zebra", ".roo/rules/m.md": "m"})
    disk.link(".roo/rules/a.md", "../../docs/style.md")
    disk.link(".roo/rules/z", "../../docs/more")
    customizations = disk.load_customizations()
    assert rules_of(customizations).rules == (
        RuleFile(".roo/rules/a.md", "style"),
        RuleFile(".roo/rules/m.md", "m"),
        RuleFile(".roo/rules/z/zebra.md", "zebra"),
    )
    assert customizations.warnings == ()


def test_links_are_followed_five_deep(disk: Disk) -> None:
    disk.write({"end.md": "end"})
    disk.link("l0", "end.md")
    for number in range(1, 6):
        disk.link(f"l{number}", f"l{number - 1}")
    disk.link(".roo/rules/five.md", "../../l3")
    disk.link(".roo/rules/six.md", "../../l4")
    customizations = disk.load_customizations()
    assert labels(rules_of(customizations).rules) == [".roo/rules/five.md"]
    assert customizations.warnings == (".roo/rules/six.md is not read: too many links lead to it.",)


def test_a_link_back_to_its_own_directory_ends_there(disk: Disk) -> None:
    disk.write({".roo/rules/a.md": "a", ".roo/rules/b/c.md": "c"})
    disk.link(".roo/rules/loop", ".")
    disk.link(".roo/rules/b/up", "../../rules")
    disk.link(".roo/rules/self", "self")
    customizations = disk.load_customizations()
    assert labels(rules_of(customizations).rules) == [".roo/rules/a.md", ".roo/rules/b/c.md"]
    assert len(customizations.warnings) == 1
    assert ".roo/rules/self" in customizations.warnings[0]


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize("directory", [".roo/rules", ".roo/rules-code"])
def test_links_of_a_project_do_not_lead_out_of_it(
    disk: Disk, tmp_path: Path, directory: str
) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text("PRIVATE")
    disk.write({"~/.roo/profiles.json": "PRIVATE", "~/.roo/rules/mine.md": "shared"})
    disk.link(f"{directory}/key.md", secret)
    disk.link(f"{directory}/all", tmp_path)
    disk.link(f"{directory}/profiles.md", disk.home / "profiles.json")
    disk.link(f"{directory}/ok.md", disk.home / "rules" / "mine.md")
    disk.link("AGENTS.md", secret)
    disk.link(".roo/system-prompt-code", secret)
    customizations = disk.load_customizations()
    instructions = rules_of(customizations)
    assert "PRIVATE" not in str(instructions)
    assert RuleFile(f"{directory}/ok.md", "shared") in (
        *instructions.rules,
        *instructions.mode_rules,
    )
    assert sorted(warning.split()[0] for warning in customizations.warnings) == sorted(
        [
            f"{directory}/all",
            f"{directory}/key.md",
            f"{directory}/profiles.md",
            "AGENTS.md",
            ".roo/system-prompt-code",
        ]
    )
    assert all("leads out of the workspace" in warning for warning in customizations.warnings)


@pytest.mark.contract("permissions:paths")
def test_a_linked_directory_of_rules_outside_is_not_entered(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "other" / "rules").mkdir(parents=True)
    (tmp_path / "other" / "rules" / "a.md").write_text("PRIVATE")
    disk.link(".roo", tmp_path / "other")
    customizations = disk.load_customizations()
    assert rules_of(customizations) == Instructions()
    assert customizations.warnings


def test_a_link_does_not_get_around_what_the_project_hides(disk: Disk) -> None:
    disk.write({".env": "TOKEN=1"})
    disk.link(".roo/rules/env.md", "../../.env")
    disk.hidden.add(disk.work / ".env")
    assert rules_of(disk.load_customizations()) == Instructions()


def test_links_of_the_user_may_lead_anywhere(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text("mine")
    disk.link("~/.roo/rules/linked.md", tmp_path / "dotfiles")
    assert rules_of(disk.load_customizations()).rules == (
        RuleFile("~/.roo/rules/linked.md", "mine"),
    )


@pytest.mark.contract("rules:order")
def test_pipes_devices_and_dead_links_are_reported_and_passed_over(disk: Disk) -> None:
    disk.write({".roo/rules/good.md": "good", ".roo/rules/binary.md": b"\x00\x01"})
    os.mkfifo(disk.work / ".roo" / "rules" / "pipe.md")
    os.mkfifo(disk.work / ".roomodes")
    os.mkfifo(disk.work / "AGENTS.md")
    disk.link(".roo/rules/gone.md", "nowhere")
    disk.link("~/.roo/rules/zero.md", "/dev/zero")
    customizations = disk.load_customizations()
    assert labels(rules_of(customizations).rules) == [".roo/rules/good.md"]
    assert sorted(warning.split()[0] for warning in customizations.warnings) == [
        ".roo/rules/binary.md",
        ".roo/rules/gone.md",
        ".roo/rules/pipe.md",
        ".roomodes",
        "AGENTS.md",
        "~/.roo/rules/zero.md",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_reported(disk: Disk) -> None:
    disk.write({".roo/rules/a.md": "a", ".roo/rules-code/b.md": "b"})
    (disk.work / ".roo" / "rules" / "a.md").chmod(0)
    (disk.work / ".roo" / "rules-code").chmod(0)
    customizations = disk.load_customizations()
    assert rules_of(customizations) == Instructions()
    assert len(customizations.warnings) == 2


def test_a_workspace_that_is_the_users_home_tells_its_rules_once(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.work.rmdir()
    disk.work = disk.user_home
    disk.write({".roo/rules/a.md": "once", ".roo/commands/a.md": "once"})
    customizations = disk.load_customizations()
    assert labels(rules_of(customizations).rules) == ["~/.roo/rules/a.md"]
    commands = customizations.list_commands()
    assert [each.source for each in commands if each.name == "a"] == ["global"]


def test_the_name_of_a_file_does_not_pass_for_a_section_of_the_prompt(disk: Disk) -> None:
    disk.write({".roo/rules/a\n\n====\n\nRULES": "x", ".roo/rules/b\n": b"\0"})
    customizations = disk.load_customizations()
    (file,) = rules_of(customizations).rules
    assert file.label == ".roo/rules/a\\n\\n====\\n\\nRULES"
    assert customizations.warnings == (".roo/rules/b\\n is not read: it is not text.",)
