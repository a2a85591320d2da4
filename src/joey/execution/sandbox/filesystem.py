"""The file-system view of a sandboxed command: which paths are readable, writable or hidden.

Each path has a view, which everything below it shares unless it has its own. The system is
readable. Home directories, sockets and removable disks are hidden, except for the directories in
which tools are installed. The workspace and a private temporary directory are writable. Secrets are
hidden wherever they are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from joey.execution.sandbox.protected_files import ProtectedPaths, find_protected_paths
from joey.execution.sandbox.protected_scan import ScannedDirectory
from joey.execution.sandbox.sandbox import SandboxConfig

_HIDDEN_DIRECTORIES = (
    *("/home", "/root", "/run", "/var/run", "/mnt", "/media"),
    *("/Users", "/Volumes", "/System/Volumes/Data"),
)
_READABLE_IN_HIDDEN_DIRECTORIES = (
    "/run/systemd/resolve",
    "/run/current-system",
    "/run/opengl-driver",
    "/var/run/resolv.conf",
)
"""Where systems keep their resolver and, some of them, all their programs."""
_PRIVATE_TEMP_DIRECTORIES = ("/tmp", "/var/tmp")
_ETC_SECRET_PATHS = """
    shadow shadow- gshadow gshadow- sudoers sudoers.d ssl/private krb5.keytab wireguard
    NetworkManager/system-connections docker/key.json ssh/ssh_host_rsa_key
    ssh/ssh_host_ecdsa_key ssh/ssh_host_ed25519_key
""".split()  # noqa: SIM905 (tables are easier to read)
_HOME_SECRET_PATHS = """
    .ssh .aws .gnupg .azure .kube .docker .netrc _netrc .npmrc .yarnrc.yml .pypirc .pgpass .my.cnf
    .git-credentials .vault-token .password-store .terraform.d .terraformrc .boto .s3cfg
    .config/gcloud .config/gh .config/glab-cli .config/git/credentials .config/op .config/sops
    .config/rclone .config/hub .config/doctl .config/google-chrome .config/chromium .mozilla
    .local/share/keyrings .local/share/kwalletd .cargo/credentials .cargo/credentials.toml
    .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .gem/credentials
    .composer/auth.json .nuget/NuGet .cache/huggingface/token .bash_history .zsh_history
    .python_history .node_repl_history .psql_history .roo .claude .claude.json .codex .gemini
""".split()  # noqa: SIM905
_HOME_TOOL_PATHS = """
    .gitconfig .config/git/config .config/git/ignore .config/git/attributes .gitignore_global
    .cargo/bin .cargo/registry .cargo/git .cargo/env .cargo/config .cargo/config.toml .rustup
    .nvm .fnm .volta .npm .npm-global .yarn .pnpm-store .bun .deno .nodenv
    .pyenv .virtualenvs .conda miniconda3 anaconda3 miniforge3 mambaforge micromamba
    .rbenv .rvm .gem/ruby .asdf .local/bin .local/lib .local/share/uv .local/share/pipx
    .local/share/pnpm .local/share/mise .local/share/fnm .local/share/virtualenvs
    .cache/pip .cache/uv .cache/pypoetry .cache/pre-commit .cache/go-build .cache/yarn
    .cache/node .cache/typescript .cache/ms-playwright .cache/bazel .cache/ccache
    .sdkman .jabba .m2/repository .m2/wrapper .gradle/caches .gradle/wrapper .ivy2/cache
    .sbt .coursier .cache/coursier go sdk .go .gvm .ghcup .cabal .stack .opam .elan .julia
    .juliaup .dotnet .nuget/packages .pub-cache .mix .hex .nix-profile .nix-defexpr
    .local/state/nix .linuxbrew .swiftly .dart .flutter .rye .pixi .proto .jenv
    Library/Python Library/pnpm Library/Caches/pip Library/Caches/go-build Library/Caches/Yarn
    Library/Caches/pypoetry Library/Caches/ms-playwright Library/Caches/Homebrew
""".split()  # noqa: SIM905
_TOOL_PATH_VARIABLES = """
    VIRTUAL_ENV CONDA_PREFIX NVM_DIR PYENV_ROOT RBENV_ROOT ASDF_DIR ASDF_DATA_DIR VOLTA_HOME
    FNM_DIR SDKMAN_DIR JAVA_HOME JDK_HOME GOROOT RUSTUP_HOME PNPM_HOME BUN_INSTALL DENO_INSTALL
    MAVEN_HOME M2_HOME GRADLE_HOME DOTNET_ROOT ANDROID_HOME ANDROID_SDK_ROOT
""".split()  # noqa: SIM905
_PROGRAM_DIRECTORY_NAMES = ("bin", "sbin", "shims")
VIEW_CACHE_TTL_S = 60.0
"""Homes and systems seldom change; how they are seen need not be worked out for each use."""


class PathView(StrEnum):
    HIDDEN = "hidden"
    PRIVATE = "private"
    """A folder of the task's stands in its place."""
    READ = "read"
    WRITE = "write"


VISIBLE_VIEWS = frozenset({PathView.READ, PathView.WRITE})
SANDBOX_PROVIDED_DIRECTORIES = ("/dev", "/proc")
"""What a confinement makes for commands itself: they see nothing of the machine's own there."""


class FilesystemLayout(Struct, frozen=True, eq=False):
    workspace: Path
    views: dict[Path, PathView]
    """Sorted so that each place comes after those above it."""
    temp_directory: Path
    """The task's private folder."""
    home: Path | None = None

    def find_view(self, path: Path) -> PathView:
        return find_view(path, self.views)


def find_view(path: Path, views: dict[Path, PathView]) -> PathView:
    """Find the view of a resolved path: that of the nearest listed path at or above it."""
    return next(view for each in (path, *path.parents) if (view := views.get(each)))


def build_layout(config: SandboxConfig, temp: Path) -> FilesystemLayout:
    return FilesystemLayout(_resolve_path(config.workspace), build_views(config), temp, config.home)


def build_views(config: SandboxConfig) -> dict[Path, PathView]:
    """Build the views of the machine for a sandboxed command, parents first; file tools use the
    same ones (see `SandboxBoundary`)."""
    workspace, home = _resolve_path(config.workspace), config.home
    writable = [_resolve_configured_path(each, workspace, home) for each in config.writable_paths]
    views: dict[Path, PathView] = {Path("/"): PathView.READ}
    views |= dict.fromkeys(
        _resolve_existing(*_PRIVATE_TEMP_DIRECTORIES, tempfile.gettempdir()), PathView.PRIVATE
    )
    views |= dict.fromkeys(_resolve_existing(*_HIDDEN_DIRECTORIES), PathView.HIDDEN)
    views |= dict.fromkeys(
        _resolve_existing(*(f"/etc/{each}" for each in _ETC_SECRET_PATHS)), PathView.HIDDEN
    )
    views |= dict.fromkeys(_resolve_existing(*_READABLE_IN_HIDDEN_DIRECTORIES), PathView.READ)
    secrets, absent = [_resolve_path(config.joey_home)], list[Path]()
    if home is not None:
        absent = [home / each for each in _HOME_SECRET_PATHS]
        secrets += _resolve_existing(*map(str, absent))
        views[home] = PathView.PRIVATE
    for place in _find_tool_directories(config, home, (*secrets, *absent)):
        views.setdefault(place, PathView.READ)
    readable = [_resolve_configured_path(each, workspace, home) for each in config.readable_paths]
    views |= dict.fromkeys(filter(Path.exists, readable), PathView.READ)
    views |= dict.fromkeys(filter(Path.exists, writable), PathView.WRITE)
    views |= dict.fromkeys(config.added_directories, PathView.WRITE)
    views[workspace] = PathView.WRITE
    for each in secrets:
        if each not in views and each.exists() and find_view(each, views) in VISIBLE_VIEWS:
            views[each] = PathView.HIDDEN
    return _sort_and_prune_views(views)


def find_visible_protected_paths(
    config: SandboxConfig, layout: FilesystemLayout, directories: dict[str, ScannedDirectory]
) -> ProtectedPaths:
    """Find existing protected names, except for hidden ones and those that the user has opened."""
    workspace = layout.workspace
    left_out = {
        _resolve_configured_path(each, workspace, layout.home) for each in config.writable_paths
    }
    left_out |= {path for path, view in layout.views.items() if view is PathView.HIDDEN}
    left_out.add(_resolve_path(config.joey_home))
    prefix = f"{str(workspace).rstrip('/')}/"
    inside = (path for path in map(str, left_out) if path.startswith(prefix))
    return find_protected_paths(
        workspace, directories, frozenset(path.removeprefix(prefix) for path in inside)
    )


def is_root_in_foreign_workspace(workspace: Path) -> bool:
    """Whether root works on another user's files: it needs capabilities for that, and no user
    namespace of its own."""
    return os.geteuid() == 0 and workspace.stat().st_uid != 0


def _sort_and_prune_views(views: dict[Path, PathView]) -> dict[Path, PathView]:
    """Sort the views from top to bottom, without redundant ones."""
    found: dict[Path, PathView] = {}
    for path in sorted(views, key=lambda path: len(path.parts)):
        above = next((found[each] for each in path.parents if each in found), None)
        if views[path] is not above or above is PathView.PRIVATE:
            found[path] = views[path]
    return found


def _find_tool_directories(
    config: SandboxConfig, home: Path | None, secrets: tuple[Path, ...]
) -> Iterable[Path]:
    """Find tool directories outside the usual places."""
    if home is not None:
        yield from _resolve_existing(*(str(home / each) for each in _HOME_TOOL_PATHS))
    named = [config.env[name] for name in _TOOL_PATH_VARIABLES if config.env.get(name)]
    for directory in config.env.get("PATH", "").split(":"):
        if not directory.startswith("/"):
            continue
        named.append(directory)
        if Path(directory).name in _PROGRAM_DIRECTORY_NAMES:
            named.append(str(Path(directory).parent))
    kept = secrets if home is None else (*secrets, home)
    left_out = {Path("/"), *map(Path, (*_HIDDEN_DIRECTORIES, *_PRIVATE_TEMP_DIRECTORIES))}
    left_out.update(*((path, *path.parents) for path in kept))
    yield from (place for place in _resolve_existing(*named) if place not in left_out)


def _resolve_existing(*places: str) -> list[Path]:
    """Resolve existing, accessible paths."""
    return [_resolve_path(each) for each in places if os.access(each, os.R_OK)]


def _resolve_configured_path(name: str, workspace: Path, home: Path | None) -> Path:
    """Resolve a directory of the settings: absolute, in the home directory, or in the workspace."""
    if name.startswith("~/") and home is not None:
        return _resolve_path(home / name[2:])
    return _resolve_path(workspace / name)


def _resolve_path(path: str | Path) -> Path:
    return Path(os.path.realpath(path))
