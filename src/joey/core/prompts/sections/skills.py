"""Instructions that are fetched on need: what there is, and how to get it."""

from __future__ import annotations

from collections.abc import Sequence

from joey.core.customs import Skill

_PROCEDURE = """\
A skill is a set of instructions for one kind of work, written by the user or the project. Only \
its name and purpose are shown here. Before you begin with a request, and again when the work \
turns to something new, compare it with these purposes. If one of them clearly fits, {fetch}, \
and follow what it says; if several fit, take the most specific. If none does, go on without: \
do not fetch a skill on suspicion, and do not fetch one again whose instructions you already have.

Files that a skill speaks of are meant relative to the folder of its SKILL.md. Read them when you \
come to need them, not before."""


def skills_list(skills: Sequence[Skill], names: frozenset[str]) -> str:
    fetch = _fetch(names)
    if not skills or not fetch:
        return ""
    listed = "\n".join(map(_skill, skills))
    index = f"<available_skills>\n{listed}\n</available_skills>"
    return "\n\n".join(["AVAILABLE SKILLS", index, _PROCEDURE.format(fetch=fetch)])


def _fetch(names: frozenset[str]) -> str:
    if "skill" in names:
        return "fetch its instructions with the skill tool"
    if "read_file" in names:
        return "read its SKILL.md at the location given with read_file"
    return ""


def _skill(skill: Skill) -> str:
    facts = ("name", skill.name), ("description", skill.description), ("location", skill.location)
    inner = "\n".join(f"    <{tag}>{_contained(text)}</{tag}>" for tag, text in facts)
    return f"  <skill>\n{inner}\n  </skill>"


def _contained(text: str) -> str:
    line = " ".join(text.split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
