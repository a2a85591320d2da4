"""Customizations from files: modes, rules, slash commands, skills.

All files are read at once into immutable objects: repeated calls return the same objects. Files are
read again only if one of them has changed. Modes and rules have their own loaders.

- Slash commands: `commands/<name>.md`, whose text replaces `/name` in a message. Those in `.roo`
  come before those in `.claude`.
- Skills: `skills/<name>/SKILL.md`, instructions that the model fetches when it needs them. The
  same name may be there several times. A project's skill comes before the user's, then one for
  the mode before one for all modes, then one in `.roo` before one in `.agents` and `.claude`.

Both begin with front matter: YAML between two lines of dashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from joey.config.custom_modes import (
    TrustCheck,
    build_mode_trust_items,
    filter_usable_modes,
    load_modes,
)
from joey.config.rule_files import RuleLoader
from joey.config.settings import read_restrictions
from joey.config.trust import TRUST_FILE as TRUST
from joey.config.untrusted_files import (
    ConfigScope,
    ConfigScopes,
    SymlinkPolicy,
    UntrustedFileReader,
    YamlError,
    find_nested_scopes,
    locate_config_directories,
    parse_yaml,
)
from joey.core.modes import Instructions, Mode, Skill, SlashCommand, merge_modes
from joey.core.settings import Settings
from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.ports.extensions import Customizations, TrustItem


class CustomizationPaths(Struct, frozen=True):
    """The directories to read."""

    workspace: Path
    joey_home: Path
    """`JOEY_HOME`, the user's `.roo`."""
    user_home: Path
    is_hidden: Callable[[Path], bool]
    """What the project keeps from the model; links must not get around it."""
    is_trusted: TrustCheck = lambda _: False
    """What of the project the user has agreed to."""


class _LoadedCustomizations(Struct, frozen=True):
    modes: tuple[Mode, ...]
    instructions: Mapping[str, Instructions]
    commands: tuple[SlashCommand, ...]
    skills: tuple[FoundSkill, ...]
    warnings: tuple[str, ...]


def load_available_modes(paths: CustomizationPaths, settings: Settings) -> tuple[Mode, ...]:
    """Load only the modes."""
    return _load_usable_modes(paths, resolve_scopes(paths), settings, UntrustedFileReader())


def list_mode_trust_items(paths: CustomizationPaths) -> tuple[TrustItem, ...]:
    """List the project's modes that need trust."""
    return build_mode_trust_items(load_modes(resolve_scopes(paths), UntrustedFileReader()))


class FileCustomizations:
    def __init__(self, paths: CustomizationPaths, settings: Settings) -> None:
        self._paths = paths
        self._settings = settings
        self._reader, self._loaded = self._load()

    @property
    def modes(self) -> tuple[Mode, ...]:
        return self._loaded.modes

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._loaded.warnings

    def get_instructions(self, mode: Mode) -> Instructions:
        return self._loaded.instructions.get(mode.slug) or Instructions()

    def list_commands(self) -> tuple[SlashCommand, ...]:
        return self._loaded.commands

    def list_skills(self, mode: Mode) -> tuple[Skill, ...]:
        """List the skill with the highest precedence of each name, alphabetically."""
        best: dict[str, Skill] = {}
        for each in self._loaded.skills:
            if not each.skill.modes or mode.slug in each.skill.modes:
                best.setdefault(each.skill.name, each.skill)
        return tuple(best[name] for name in sorted(best))

    def read_skill(self, skill: Skill) -> str:
        """Read the current instructions of a skill. Raises ToolError."""
        known = next((each for each in self._loaded.skills if each.skill == skill), None)
        reader = UntrustedFileReader()
        text = (
            None
            if known is None
            else reader.read(Path(skill.location), skill.location, known.symlink_policy)
        )
        if text is None:
            reason = " ".join(reader.warnings) or "its file is gone."
            raise ToolError(f"The skill '{skill.name}' cannot be used: {reason}")
        note = "\n\n[The file goes on; read the rest where you need it.]"
        return split_front_matter(text.text).body + (note if text.is_truncated else "")

    def refresh(self) -> bool:
        if self._reader.is_unchanged():
            return False
        self._reader, reading = self._load()
        if reading == self._loaded:
            return False
        self._loaded = reading
        return True

    def _load(self) -> tuple[UntrustedFileReader, _LoadedCustomizations]:
        paths, settings = self._paths, self._settings
        reader = UntrustedFileReader()
        scopes = resolve_scopes(paths)
        nested = find_nested_scopes(scopes, reader) if settings.enable_subfolder_rules else ()
        modes = _load_usable_modes(paths, scopes, settings, reader)
        read_restrictions(scopes, reader)
        rules = RuleLoader(scopes, nested, reader, agents=settings.use_agent_rules)
        reading = _LoadedCustomizations(
            modes=modes,
            instructions={mode.slug: rules.load_instructions(mode.slug) for mode in modes},
            commands=load_commands(scopes, reader),
            skills=load_skills(scopes, reader),
            warnings=reader.warnings,
        )
        return reader, reading


def _load_usable_modes(
    paths: CustomizationPaths, scopes: ConfigScopes, settings: Settings, reader: UntrustedFileReader
) -> tuple[Mode, ...]:
    found = load_modes(scopes, reader)
    usable = filter_usable_modes(found, settings, paths.is_trusted, reader)
    if usable != found:
        reader.is_file(paths.joey_home / TRUST)  # trust granted later counts too
    return merge_modes(usable, settings.custom_mode_prompts)


def resolve_scopes(paths: CustomizationPaths) -> ConfigScopes:
    return locate_config_directories(
        workspace=paths.workspace,
        joey_home=paths.joey_home,
        user_home=paths.user_home,
        is_hidden=paths.is_hidden,
    )


_protocol_check: type[Customizations] = FileCustomizations


COMMANDS_DIRECTORY = "commands"
_COMMAND_NAME_RE = compile_regex(r"[A-Za-z0-9_.-]+", re.ASCII)
_COMMAND_FILE_SUFFIX = ".md"

INIT_COMMAND = SlashCommand(
    name="init",
    description="Study the code base and write AGENTS.md for its contributors",
    source="built-in",
    content="""\
Write a file AGENTS.md in the root of this workspace: what an agent that sees the project for \
the first time must know to work on it well, and would not find out quickly by itself.

1. Look at what is there already: AGENTS.md, README, CONTRIBUTING, .roo/rules, and files of \
other agents such as CLAUDE.md or .cursorrules. What they say and is still true belongs into the \
new file; an existing AGENTS.md is improved, not replaced.
2. Study the project: manifests, lock files and build files, the layout of its folders, the \
entry points, the tests, the CI configuration. Read enough of the code to see how its parts work \
together and which conventions it really follows.
3. Check the commands that you are going to name, as far as they are harmless: how to install, \
build, lint, run, run all tests and run a single one.
4. Write the file. It says, briefly: what the project is; the commands; how it is laid out and \
how a request or a piece of data goes through it; conventions that differ from what is usual; \
traps. Leave out what every developer knows, what a look at the folders shows, and whatever you \
have not verified. Less than a hundred lines are nearly always enough.

Finish by telling in a few sentences what you have put into the file, and what you could not find \
out.""",
)


REVIEW_COMMAND = SlashCommand(
    name="review",
    description="Review the uncommitted changes, or what you name",
    argument_hint="[what to review]",
    source="built-in",
    content="""\
Review this, without changing any file: $ARGUMENTS

1. If nothing is named above, review the uncommitted changes (`git status`, `git diff HEAD`, and \
the files that are not tracked yet); if there are none, what the current branch has that the main \
branch does not.
2. Read enough of the code around each change to judge it: callers, tests, similar code.
3. Look for defects first: wrong results, missing cases, errors that are lost, races, security, \
broken compatibility, missing tests. Then what makes the code harder to understand than need be. \
Leave matters of taste out.
4. Check each finding against the code before you report it.

Finish with the findings, the worst first: for each the file and line, what goes wrong and when, \
and how to mend it. If there are none, say so.""",
)


def load_commands(scopes: ConfigScopes, reader: UntrustedFileReader) -> tuple[SlashCommand, ...]:
    """Load one command per name: the project's, else the user's, else the built-in one."""
    found = {command.name: command for command in (INIT_COMMAND, REVIEW_COMMAND)}
    for scope in scopes.command_scopes:
        for command in _load_scope_commands(scope, reader):
            found[command.name] = command
    return tuple(found[name] for name in sorted(found))


def _load_scope_commands(scope: ConfigScope, reader: UntrustedFileReader) -> Iterator[SlashCommand]:
    directory, label = scope.directory / COMMANDS_DIRECTORY, f"{scope.label}/{COMMANDS_DIRECTORY}"
    for file in reader.list_names(directory, label, scope.symlink_policy):
        if not file.lower().endswith(_COMMAND_FILE_SUFFIX):
            continue
        shown = f"{label}/{file}"
        name = file[: -len(_COMMAND_FILE_SUFFIX)]
        if not _COMMAND_NAME_RE.fullmatch(name):
            reader.warn(
                f"{shown} cannot be called: a command's name has letters, digits, `_`, `.`, `-`."
            )
            continue
        text = reader.read(directory / file, shown, scope.symlink_policy)
        if text is None:
            continue
        matter = split_front_matter(text.text)
        if matter.problem:
            reader.warn(f"{shown}: {matter.problem}.")
        yield SlashCommand(
            name=name,
            content=matter.body,
            description=matter.get_text("description"),
            argument_hint=matter.get_text("argument-hint"),
            mode=matter.get_text("mode") or None,
            source=scope.source,
        )


SKILL_FILE = "SKILL.md"
MAX_SKILL_NAME_CHARS = 64
MAX_SKILL_DESCRIPTION_CHARS = 1024
_SKILLS_DIRECTORY_RE = compile_regex(r"skills(?:-([A-Za-z0-9-]+))?", re.ASCII)
_SKILL_NAME_RE = compile_regex(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)


class FoundSkill(Struct, frozen=True):
    skill: Skill
    priority: tuple[int, ...]
    """The smaller, the better."""
    symlink_policy: SymlinkPolicy | None


def load_skills(scopes: ConfigScopes, reader: UntrustedFileReader) -> tuple[FoundSkill, ...]:
    """Load all skills of any mode, by precedence."""
    ranked_scopes = (
        (scopes.project, 0, 0),
        (scopes.project_agents, 0, 1),
        (scopes.project_claude, 0, 2),
        (scopes.user, 1, 0),
        (scopes.user_agents, 1, 1),
        (scopes.user_claude, 1, 2),
    )
    found = [
        FoundSkill(skill, (owner, 0 if skill.modes else 1, directory), scope.symlink_policy)
        for scope, owner, directory in ranked_scopes
        if scope is not None
        for skill in _load_scope_skills(scope, reader)
    ]
    return tuple(sorted(found, key=lambda each: each.priority))


def _load_scope_skills(scope: ConfigScope, reader: UntrustedFileReader) -> Iterator[Skill]:
    for name in reader.list_names(scope.directory, scope.label, scope.symlink_policy):
        match = _SKILLS_DIRECTORY_RE.fullmatch(name)
        if match is None:
            continue
        directory, label = scope.directory / name, f"{scope.label}/{name}"
        for own in reader.list_names(directory, label, scope.symlink_policy):
            path, shown = directory / own / SKILL_FILE, f"{label}/{own}/{SKILL_FILE}"
            if (text := reader.read(path, shown, scope.symlink_policy)) is None:
                continue
            matter = split_front_matter(text.text)
            if problem := matter.problem or _explain_invalid_skill(matter, own):
                reader.warn(f"{shown} is not used: {problem}.")
                continue
            yield Skill(
                name=own,
                description=matter.get_text("description"),
                location=str(path),
                modes=_parse_mode_slugs(matter) or ((match[1],) if match[1] else ()),
                source=scope.source,
            )


def _explain_invalid_skill(matter: FrontMatter, directory: str) -> str:
    name, description = matter.get_text("name"), matter.get_text("description")
    if name != directory:
        given = f", not {name!r}" if name else ""
        return f"`name` must be that of its folder, {directory!r}{given}"
    if not _SKILL_NAME_RE.fullmatch(name) or len(name) > MAX_SKILL_NAME_CHARS:
        return (
            "`name` must be lower-case words joined by `-`, of at most "
            f"{MAX_SKILL_NAME_CHARS} characters"
        )
    if not 1 <= len(description) <= MAX_SKILL_DESCRIPTION_CHARS:
        return f"`description` must have 1 to {MAX_SKILL_DESCRIPTION_CHARS} characters"
    return ""


def _parse_mode_slugs(matter: FrontMatter) -> tuple[str, ...]:
    """Parse `modeSlugs`, or its former name `mode`."""
    given = matter.fields.get("modeSlugs", matter.fields.get("mode"))
    slugs = given if isinstance(given, list) else [given]
    return tuple(slug.strip() for slug in slugs if isinstance(slug, str) and slug.strip())


_FRONT_MATTER_RE = compile_regex(
    r"\s*---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)


class FrontMatter(Struct, frozen=True):
    fields: dict[str, Any]
    body: str
    """The text without it, and without white space around it."""
    problem: str = ""
    """Why the fields could not be read."""

    def get_text(self, name: str) -> str:
        """Return a field on one line; empty if it is missing or not a string."""
        value = self.fields.get(name)
        return " ".join(value.split()) if isinstance(value, str) else ""


def split_front_matter(text: str) -> FrontMatter:
    """Split front matter from the body; text without valid front matter is all body."""
    block = _FRONT_MATTER_RE.match(text)
    if block is None:
        return FrontMatter({}, text.strip())
    body = text[block.end() :].strip()
    try:
        fields = parse_yaml(block[1])
    except YamlError as error:
        return FrontMatter({}, body, f"its front matter is not valid YAML ({error})")
    if fields is None:
        return FrontMatter({}, body)
    if not isinstance(fields, dict):
        return FrontMatter({}, body, "its front matter is not a list of `name: value`")
    return FrontMatter({str(name): value for name, value in fields.items()}, body)
