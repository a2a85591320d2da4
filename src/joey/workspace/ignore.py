"""What the model must not see (`.rooignore`) and what it must not change unasked (protected).

`.rooignore` has gitignore's syntax, stands in the root of the workspace and is read again when it
changes. When it is there but cannot be understood, everything counts as ignored: a rule that
cannot be read must not become no rule.
"""

from __future__ import annotations

import logging
import re
import stat
import unicodedata
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

log = logging.getLogger(__name__)

NAME = ".rooignore"
_LARGEST = 1024 * 1024

# A name in a path that is one of these protects everything below it too.
_PROTECTED = """
    .rooignore .rooprotected .roomodes .roorules* .clinerules* .roo agents.md agent.md
    .vscode *.code-workspace .idea .editorconfig .devcontainer .devcontainer.json
    .git .gitmodules .gitattributes .gitconfig .hg .hgrc .svn .jj .husky lefthook.y*ml
    .pre-commit-config.yaml
    .github .gitlab-ci.yml .circleci .travis.yml .buildkite azure-pipelines.yml jenkinsfile
    .claude claude*.md .mcp.json .cursor .cursorrules .cursorignore .windsurf .windsurfrules
    .codex .gemini gemini.md .aider* .continue .kilocode* .cline .qwen .opencode .agents .kiro
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile
    .zlogin .zlogout .envrc .direnv .inputrc .login .cshrc .tcshrc .kshrc
    .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc pip.conf .pip .bunfig.toml .cargo .gemrc
    .bundle sitecustomize.py usercustomize.py *.pth .ssh .gnupg .aws .netrc authorized_keys
""".split()  # noqa: SIM905 (a table is easier to read than ninety lines of one name)
_PROTECTED_NAME = re.compile("|".join(translate(pattern) for pattern in _PROTECTED))


def is_protected(path: str) -> bool:
    """Whether a path (parts joined by `/`) configures the agent, its host or its tools."""
    return any(_PROTECTED_NAME.match(_folded(name)) for name in path.split("/") if name)


def _folded(name: str) -> str:
    """A name as a file system that ignores case and composition may see it."""
    if name.isascii():
        return name.lower()
    composed = unicodedata.normalize("NFKC", name).casefold()
    return "".join(char for char in composed if unicodedata.category(char) != "Cf")


class IgnoreRules:
    """The workspace's `.rooignore`, as it is at the moment of asking."""

    def __init__(self, root: Path) -> None:
        self._file = root / NAME
        self._seen: tuple[int, ...] | None = None
        self._spec: GitIgnoreSpec | None = None
        self._unreadable = False

    def hides(self, path: str, *, is_dir: bool = False) -> bool:
        """Whether a path relative to the root (with `/`) is hidden; the root itself never is."""
        self._refresh()
        if path in ("", "."):
            return False
        if self._unreadable:
            return True
        if self._spec is None:
            return False
        return path == NAME or self._spec.match_file(f"{path}/" if is_dir else path)

    def hides_place(self, path: str, place: Path) -> bool:
        """Like `hides`, for a path that may name a folder."""
        if self.hides(path):
            return True
        return self._spec is not None and self.hides(path, is_dir=True) and place.is_dir()

    def _refresh(self) -> None:
        try:
            facts = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._spec, self._unreadable = None, None, False
            return
        except OSError as error:
            self._close(error)
            return
        seen = (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino)
        if seen == self._seen:
            return
        try:
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST:
                raise ValueError("not a regular file of reasonable size")
            self._spec = _parse(self._file.read_text(encoding="utf-8-sig"))
            self._unreadable = False
        except (OSError, ValueError) as error:
            self._close(error)
        self._seen = seen

    def _close(self, error: Exception) -> None:
        log.warning("%s cannot be used, so every file is hidden: %s", self._file, error)
        self._seen, self._spec, self._unreadable = None, None, True


def _parse(text: str) -> GitIgnoreSpec | None:
    """The rules of a file, or None when it has none."""
    lines = text.splitlines()
    if not any(line.strip() and not line.startswith("#") for line in lines):
        return None
    # Imported on need: most workspaces have no rules, and loading the library takes a while.
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)
