"""Rules: instructions of the user and the project, for one mode or for all.

Files of a rules directory are used in name order; if a mode or a project has no such directory or
it is empty, a single file in the workspace may replace it. All rules together have a size limit, so
that no file can crowd out the conversation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from joey.config.untrusted_files import (
    ROO_DIRECTORY,
    ConfigScope,
    ConfigScopes,
    FileText,
    UntrustedFileReader,
    escape_control_chars,
    iter_symlink_chain,
)
from joey.core.modes import Instructions, RuleFile

MAX_LINK_DEPTH = 5
MAX_DIRECTORY_DEPTH = 20
MAX_RULE_FILES = 200
MAX_RULES_CHARS = 300_000
"""Characters of rules in one prompt."""

_AGENTS_MD_NAMES = ("AGENTS.md", "AGENT.md")
_CLAUDE_MD_NAMES = ("CLAUDE.md", ".claude/CLAUDE.md")

_SKIPPED_NAMES = frozenset({".ds_store", "thumbs.db"})
_SKIPPED_SUFFIXES = (
    *(".bak", ".cache", ".crdownload", ".db", ".dmp", ".dump", ".eslintcache", ".lock", ".log"),
    *(".old", ".part", ".partial", ".pyc", ".pyo", ".stackdump", ".swo", ".swp", ".temp", ".tmp"),
)


class RuleLoader:
    """The rules of a workspace on disk."""

    def __init__(
        self,
        scopes: ConfigScopes,
        nested: Sequence[ConfigScope],
        reader: UntrustedFileReader,
        *,
        agents: bool,
    ) -> None:
        self._scopes = scopes
        self._nested_scopes = nested
        self._reader = reader
        self._general_rules = self._load_rule_directories("rules") or self._load_workspace_file(
            ".roorules", ".clinerules", ".cursorrules"
        )
        self._agents_md_files = tuple(self._load_agents_md_files()) if agents else ()
        self._rooignore_text = "\n\n".join(
            file.text for file in self._load_workspace_file(".rooignore")
        )

    def load_instructions(self, slug: str) -> Instructions:
        """Load the instructions of a mode, within the size limit."""
        own = self._load_rule_directories(f"rules-{slug}")
        override = self._load_workspace_file(f"{ROO_DIRECTORY}/system-prompt-{slug}")
        room = _RuleBudget(self._reader)
        return Instructions(
            mode_rules=room.fit_files(
                own or self._load_workspace_file(f".roorules-{slug}", f".clinerules-{slug}")
            ),
            ignore_rules=self._rooignore_text,
            agent_rules=room.fit_files(self._agents_md_files),
            rules=room.fit_files(self._general_rules),
            system_prompt_override=override[0].text if override else None,
        )

    def _load_rule_directories(self, name: str) -> tuple[RuleFile, ...]:
        return tuple(
            file
            for scope in (*self._scopes.roo_scopes, *self._nested_scopes)
            for file in _RuleDirectory(scope, self._reader).load_files(name)
        )

    def _load_workspace_file(self, *names: str) -> tuple[RuleFile, ...]:
        return self._load_first_file(self._scopes.workspace, "", *names)

    def _load_first_file(self, directory: Path, label: str, *names: str) -> tuple[RuleFile, ...]:
        """Load the first of these files that is not empty."""
        for name in names:
            path, shown = directory / name, f"{label}{name}"
            if self._reader.is_directory(path):
                continue
            text = self._reader.read(path, shown, self._scopes.symlink_policy)
            if (file := _build_rule_file(text, shown)) is not None:
                return (file,)
        return ()

    def _load_agents_md_files(self) -> Iterator[RuleFile]:
        nested = (
            (scope.directory.parent, scope.label.removesuffix(ROO_DIRECTORY))
            for scope in self._nested_scopes
        )
        for directory, label in ((self._scopes.workspace, ""), *nested):
            yield from self._load_first_file(directory, label, *_AGENTS_MD_NAMES, *_CLAUDE_MD_NAMES)
            yield from self._load_first_file(directory, label, "AGENTS.local.md", "CLAUDE.local.md")


class _RuleDirectory:
    """All files of one rules directory, links included."""

    def __init__(self, scope: ConfigScope, reader: UntrustedFileReader) -> None:
        self._scope = scope
        self._reader = reader
        self._found_files: list[tuple[str, str, Path]] = []
        self._visited_directories: set[str] = set()

    def load_files(self, name: str) -> Iterator[RuleFile]:
        self._walk(self._scope.directory / name, f"{self._scope.label}/{name}", 0, 0)
        said = 0
        for _, label, path in sorted(self._found_files):
            text = self._reader.read(path, label, self._scope.symlink_policy)
            if (file := _build_rule_file(text, label)) is not None:
                said += len(file.text)
                yield file
            if said > MAX_RULES_CHARS:
                return

    def _walk(self, directory: Path, label: str, links: int, depth: int) -> None:
        real = os.path.realpath(directory)
        if real in self._visited_directories:
            return
        self._visited_directories.add(real)
        for name in self._reader.list_names(directory, label, self._scope.symlink_policy):
            self._visit_entry(directory / name, f"{label}/{name}", links, depth)

    def _visit_entry(self, path: Path, label: str, links: int, depth: int) -> None:
        name = path.name.lower()
        links += sum(1 for _ in iter_symlink_chain(path))
        if links > MAX_LINK_DEPTH:
            self._reader.warn(f"{label} is not read: too many links lead to it.")
        elif self._reader.is_directory(path):
            if depth < MAX_DIRECTORY_DEPTH:
                self._walk(path, label, links, depth + 1)
        elif name in _SKIPPED_NAMES or name.endswith(_SKIPPED_SUFFIXES):
            pass
        elif len(self._found_files) >= MAX_RULE_FILES:
            self._reader.warn(f"{label} is not read: there are more than {MAX_RULE_FILES} rules.")
        else:
            self._found_files.append((name, label, path))


class _RuleBudget:
    """The remaining size for rules while they are put together."""

    def __init__(self, reader: UntrustedFileReader) -> None:
        self._remaining_chars = MAX_RULES_CHARS
        self._reader = reader

    def fit_files(self, files: Sequence[RuleFile]) -> tuple[RuleFile, ...]:
        return tuple(map(self._fit_file, files))

    def _fit_file(self, file: RuleFile) -> RuleFile:
        left = self._remaining_chars
        self._remaining_chars = max(0, left - len(file.text))
        if len(file.text) <= left:
            return file
        self._reader.warn(
            f"{file.label} is left out: all rules together are limited to {MAX_RULES_CHARS:,} "
            f"characters."
        )
        note = "[Left out here, for want of room. Read it where you need it.]"
        kept = file.text[:left].rstrip()
        return structs.replace(file, text=f"{kept}\n\n{note}" if kept else note)


def _build_rule_file(text: FileText | None, label: str) -> RuleFile | None:
    """Build a rule file; None if it is empty."""
    if text is None or not text.text.strip():
        return None
    said = text.text.strip()
    if text.is_truncated:
        said += (
            f"\n\n[The file goes on: it has {text.size_bytes:,} bytes, and only its beginning is "
            "shown here. Read the rest where you need it.]"
        )
    return RuleFile(escape_control_chars(label), said)
