"""Skills: `skills/<name>/SKILL.md`, instructions that the model fetches when it needs them.

The same name may be there several times. A project's skill comes before the person's, then one
for the mode before one for all modes, then one in `.roo` before one in `.agents`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from joey.config.front_matter import FrontMatter, split_front_matter
from joey.config.scopes import Scope, Scopes
from joey.config.sightings import Fence, Sightings
from joey.core.customs import Skill
from joey.core.regex import regex
from joey.errors import ToolError

FILE = "SKILL.md"
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
_FOLDER = regex(r"skills(?:-([A-Za-z0-9-]+))?", re.ASCII)
_NAME = regex(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)


class FoundSkill(Struct, frozen=True):
    skill: Skill
    rank: tuple[int, ...]
    """The smaller, the better."""
    fence: Fence | None

    def fits(self, slug: str) -> bool:
        return not self.skill.modes or slug in self.skill.modes


def load_skills(scopes: Scopes, sightings: Sightings) -> tuple[FoundSkill, ...]:
    """All that can be used in some mode, the best first."""
    places = (
        (scopes.project, 0, 0),
        (scopes.project_agents, 0, 1),
        (scopes.user, 1, 0),
        (scopes.user_agents, 1, 1),
    )
    found = [
        FoundSkill(skill, (owner, 0 if skill.modes else 1, folder), scope.fence)
        for scope, owner, folder in places
        if scope is not None
        for skill in _skills_of(scope, sightings)
    ]
    return tuple(sorted(found, key=lambda each: each.rank))


def skills_for(found: Sequence[FoundSkill], slug: str) -> tuple[Skill, ...]:
    """The best of each name in a mode, by the alphabet."""
    best: dict[str, Skill] = {}
    for each in found:
        if each.fits(slug):
            best.setdefault(each.skill.name, each.skill)
    return tuple(best[name] for name in sorted(best))


def read_skill(found: Sequence[FoundSkill], skill: Skill) -> str:
    """The instructions as they are now.

    Raises:
        ToolError
    """
    known = next((each for each in found if each.skill == skill), None)
    sightings = Sightings()
    path = Path(skill.location)
    text = sightings.read(path, skill.location, known.fence) if known is not None else None
    if text is None:
        reason = " ".join(sightings.warnings) or "its file is gone."
        raise ToolError(f"The skill '{skill.name}' cannot be used: {reason}")
    note = "\n\n[The file goes on; read the rest where you need it.]" if text.is_cut else ""
    return split_front_matter(text.text).body + note


def _skills_of(scope: Scope, sightings: Sightings) -> Iterator[Skill]:
    for name in sightings.names(scope.folder, scope.label, scope.fence):
        match = _FOLDER.fullmatch(name)
        if match is None:
            continue
        folder, label = scope.folder / name, f"{scope.label}/{name}"
        for own in sightings.names(folder, label, scope.fence):
            path, shown = folder / own / FILE, f"{label}/{own}/{FILE}"
            if (text := sightings.read(path, shown, scope.fence)) is None:
                continue
            matter = split_front_matter(text.text)
            if problem := matter.problem or _problem(matter, own):
                sightings.warn(f"{shown} is not used: {problem}.")
                continue
            yield Skill(
                name=own,
                description=matter.text("description"),
                location=str(path),
                modes=_modes(matter) or ((match[1],) if match[1] else ()),
                source=scope.source,
            )


def _problem(matter: FrontMatter, folder: str) -> str:
    name, description = matter.text("name"), matter.text("description")
    if name != folder:
        return f"`name` must be that of its folder, {folder!r}" + (
            f", not {name!r}" if name else ""
        )
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        return (
            f"`name` must be lower-case words joined by `-`, of at most {LONGEST_NAME} characters"
        )
    if not 1 <= len(description) <= LONGEST_DESCRIPTION:
        return f"`description` must have 1 to {LONGEST_DESCRIPTION} characters"
    return ""


def _modes(matter: FrontMatter) -> tuple[str, ...]:
    """`modeSlugs`, or `mode` as it was called before."""
    given = matter.fields.get("modeSlugs", matter.fields.get("mode"))
    slugs = given if isinstance(given, list) else [given]
    return tuple(slug.strip() for slug in slugs if isinstance(slug, str) and slug.strip())
