from __future__ import annotations

from pathlib import Path

import pytest

from joey.core.modes import Skill
from joey.errors import ToolError
from tests.harness.config.customization_files import Disk, mode_of


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def skill(name: str, description: str = "Does things.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\nDo it for {name}.\n"


def found(disk: Disk, mode: str = "code") -> dict[str, str]:
    customizations = disk.load_customizations()
    return {
        each.name: each.description
        for each in customizations.list_skills(mode_of(customizations, mode))
    }


@pytest.mark.contract("skills:priority")
def test_skills_are_found_in_all_places(disk: Disk) -> None:
    disk.write(
        {
            ".roo/skills/d/SKILL.md": skill("d"),
            ".agents/skills/c/SKILL.md": skill("c"),
            "~/.roo/skills/b/SKILL.md": skill("b"),
            "~/.agents/skills/a/SKILL.md": skill("a"),
            "~/.roo/skills/none/README.md": "not a skill",
            ".claude/skills/f/SKILL.md": skill("f"),
            "~/.claude/skills/e/SKILL.md": skill("e"),
        }
    )
    customizations = disk.load_customizations()
    skills = customizations.list_skills(mode_of(customizations))
    assert [(each.name, each.source) for each in skills] == [
        ("a", "global"),
        ("b", "global"),
        ("c", "project"),
        ("d", "project"),
        ("e", "global"),
        ("f", "project"),
    ]
    assert skills[3] == Skill(
        "d", "Does things.", str(disk.work / ".roo" / "skills" / "d" / "SKILL.md"), source="project"
    )
    assert customizations.read_skill(skills[3]) == "Do it for d."
    assert customizations.warnings == ()


@pytest.mark.contract("skills:priority")
def test_the_nearest_skill_of_a_name_counts(disk: Disk) -> None:
    places = [
        ".roo/skills-code",
        ".agents/skills-code",
        ".roo/skills",
        ".agents/skills",
        ".claude/skills",
        "~/.roo/skills-code",
        "~/.agents/skills-code",
        "~/.roo/skills",
        "~/.agents/skills",
        "~/.claude/skills",
    ]
    disk.write({f"{place}/x/SKILL.md": skill("x", place) for place in places})
    for place in places:
        assert found(disk) == {"x": place}
        disk.path(f"{place}/x/SKILL.md").unlink()


@pytest.mark.contract("skills:priority")
def test_a_skill_for_some_modes_is_seen_in_these_alone(disk: Disk) -> None:
    disk.write(
        {
            ".roo/skills/a/SKILL.md": skill("a", more="modeSlugs: [code, ask]\n"),
            ".roo/skills/b/SKILL.md": skill("b", more="mode: ask\n"),
            ".roo/skills-debug/c/SKILL.md": skill("c"),
            ".roo/skills-debug/d/SKILL.md": skill("d", more="modeSlugs:\n  - ask\n"),
        }
    )
    assert set(found(disk, "code")) == {"a"}
    assert set(found(disk, "ask")) == {"a", "b", "d"}
    assert set(found(disk, "debug")) == {"c"}
    assert set(found(disk, "architect")) == set()


@pytest.mark.parametrize(
    ("directory", "text", "complaint"),
    [
        ("a", skill("b"), "`name` must be that of its folder, 'a', not 'b'"),
        ("a", "No front matter.", "`name` must be that of its folder, 'a'."),
        ("A_b", skill("A_b"), "`name` must be lower-case words"),
        ("a--b", skill("a--b"), "`name` must be lower-case words"),
        ("a" * 65, skill("a" * 65), "`name` must be lower-case words"),
        ("a", skill("a", "''"), "`description` must have 1 to 1024 characters"),
        ("a", skill("a", "x" * 1025), "`description` must have 1 to 1024 characters"),
        ("a", "---\nname: [\n---\n", "its front matter is not valid YAML (line 2: "),
    ],
)
def test_a_skill_that_cannot_be_used_is_reported(
    disk: Disk, directory: str, text: str, complaint: str
) -> None:
    disk.write({f".roo/skills/{directory}/SKILL.md": text})
    customizations = disk.load_customizations()
    assert customizations.list_skills(mode_of(customizations)) == ()
    (warning,) = customizations.warnings
    assert warning.startswith(f".roo/skills/{directory}/SKILL.md is not used: ")
    assert complaint in warning


def test_linked_skills_stay_inside_the_project(disk: Disk, tmp_path: Path) -> None:
    disk.write({"shared/in/SKILL.md": skill("in")})
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "SKILL.md").write_text(skill("out"))
    disk.link(".roo/skills/in", "../../shared/in")
    disk.link(".roo/skills/out", tmp_path / "outside")
    assert set(found(disk)) == {"in"}


@pytest.mark.contract("skills:priority")
def test_the_text_of_a_skill_is_read_when_it_is_asked_for(disk: Disk, tmp_path: Path) -> None:
    disk.write({".roo/skills/a/SKILL.md": skill("a")})
    customizations = disk.load_customizations()
    (known,) = customizations.list_skills(mode_of(customizations))
    file = Path(known.location)
    file.write_text(skill("a") + "And more.\n")
    assert customizations.read_skill(known) == "Do it for a.\nAnd more."
    file.unlink()
    with pytest.raises(ToolError, match="The skill 'a' cannot be used: its file is gone"):
        customizations.read_skill(known)
    (tmp_path / "secret").write_text("PRIVATE")
    file.symlink_to(tmp_path / "secret")
    with pytest.raises(ToolError, match="leads out of the workspace"):
        customizations.read_skill(known)
    assert customizations.refresh()
    with pytest.raises(ToolError, match="gone"):
        customizations.read_skill(known)
