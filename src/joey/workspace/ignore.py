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
_LONGEST_NAME = 255
"""No disk has a longer one, and matching takes time."""

# A name in a path that is one of these protects everything below it too.
_PROTECTED = """
    .rooignore .rooprotected .roomodes .roorules* .clinerules* .clineignore .roo
    agents.md agent.md agents.local.md agents.override.md
    .vscode* *.code-workspace .idea .fleet .run .vs .zed .nova .theia .editorconfig
    *.sublime-project *.sublime-workspace *.sublime-settings *.sublime-build
    .devcontainer .devcontainer.json .gitpod.y*ml .gitpod.dockerfile .idx .replit
    .vim .vimrc .gvimrc .nvimrc .lvimrc .local.vimrc .exrc .nvim.lua .nanorc
    .emacs .emacs.d .dir-locals.el .dir-locals-2.el
    .git .gitmodules .gitattributes .gitconfig .git-credentials .hg .hgrc .svn .jj
    .githooks .husky .huskyrc* husky.config.* .lintstagedrc* lint-staged.config.*
    lefthook.* .lefthook* lefthook-local.* .pre-commit-config.y*ml .pre-commit-hooks.y*ml
    .overcommit.yml .simple-git-hooks.* simple-git-hooks.*
    .github .gitlab .gitlab-ci* .gitea .forgejo .circleci circle.yml .travis.y*ml .buildkite
    azure-pipelines* .azure-pipelines* .azuredevops jenkinsfile* bitbucket-pipelines.y*ml
    .drone.* .woodpecker* .appveyor.y*ml appveyor.y*ml .cirrus.* .semaphore .teamcity .tekton
    cloudbuild.y*ml buildspec.y*ml .builds .build.yml wercker.yml
    .claude* claude*.md .mcp .mcp.json mcp.json mcp_config.json .cursor* .windsurf* .codeium*
    .codex .copilot copilot-instructions.md .gemini* gemini.md .aider* .continue* .kilocode*
    .cline .qwen qwen.md .opencode opencode.json* .agents .agent .kiro .junie .amazonq .trae
    .goose* .crush* crush.json crush.md .warp warp.md .augment* .tabnine* .sourcegraph .cody
    .openhands* .devin .zencoder .factory .qodo .rules .iflow iflow.md .codebuddy
    .bash* .profile .zsh* .zprofile .zlogin .zlogout .login .logout .cshrc .tcshrc .kshrc .mkshrc
    .shrc .fishrc config.fish .envrc .direnv .direnvrc .inputrc .config .pam_environment
    .xprofile .xinitrc .xsession .xsessionrc .xserverrc .tmux.conf .screenrc .crontab
    .npmrc .yarnrc* .yarn .pnp.* .pnpmfile.* .bunfig.toml bunfig.toml .pypirc pip.conf pip.ini
    .pip .pydistutils.cfg .condarc .cargo rust-toolchain rust-toolchain.toml .gemrc .bundle
    .mvn .m2 .gradle init.gradle* gradle-wrapper.* .sbtopts .jvmopts .bazelrc *.bazelrc
    .bazeliskrc .buckconfig* nuget.config .mise .mise.* mise.toml mise.*.toml .rtx.toml .asdfrc
    .curlrc .wgetrc .ripgreprc .ackrc .ctags .ctags.d .lesskey .lessfilter
    .pythonrc* .pythonstartup .ipython .jupyter .pdbrc .irbrc .pryrc .rdbgrc .byebugrc .rspec
    .rprofile .renviron .juliarc.jl .octaverc .ghci .ocamlinit .iex.exs .erlang .user.ini
    .htaccess .gdbinit .gdbearlyinit .lldbinit .my.cnf .psqlrc .sqliterc .mongorc.js .mongoshrc.js
    sitecustomize.py usercustomize.py *.pth pyvenv.cfg
    .ssh .gnupg .aws .azure .kube .boto .netrc _netrc .pgpass .terraformrc .terraform.d
    .password-store authorized_keys
""".split()  # noqa: SIM905 (a table is easier to read than hundreds of lines of one name)
_PROTECTED_NAMES = frozenset(name for name in _PROTECTED if "*" not in name)
_PROTECTED_NAME = re.compile("|".join(translate(name) for name in _PROTECTED if "*" in name))


def is_protected(path: str) -> bool:
    """Whether a path (parts joined by `/`) configures the agent, its host or its tools."""
    return any(_is_protected_name(_folded(name)) for name in path.split("/") if name)


def _is_protected_name(name: str) -> bool:
    return name in _PROTECTED_NAMES or _PROTECTED_NAME.match(name) is not None


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
        spec = self._spec  # threads ask too, and rules may go meanwhile
        if spec is None:
            return False
        if path == NAME or any(len(name) > _LONGEST_NAME for name in path.split("/")):
            return True
        return spec.match_file(f"{path}/" if is_dir else path)

    def hides_place(self, path: str, place: Path) -> bool:
        """Like `hides`, for a path that may name a folder."""
        if self.hides(path):
            return True
        return self._spec is not None and self.hides(path, is_dir=True) and _may_be_dir(place)

    def _refresh(self) -> None:
        try:
            facts = self._file.stat()
        except OSError as error:
            absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            if absent and not self._file.is_symlink():
                self._seen, self._spec, self._unreadable = None, None, False
            elif not self._unreadable:
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
        self._unreadable, self._seen, self._spec = True, None, None


def _parse(text: str) -> GitIgnoreSpec | None:
    """The rules of a file, or None when it has none."""
    # Imported on need: most workspaces have no rules, and loading the library takes a while.
    from joey.workspace.patterns import compile_rules

    return compile_rules(text.splitlines())


def _may_be_dir(place: Path) -> bool:
    """Not to be told what a place is does not make it harmless."""
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
