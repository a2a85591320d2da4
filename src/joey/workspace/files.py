"""The workspace's files: the only way to resolve, read and write them.

A path is resolved once, symlinks included, and all decisions are about the result. Opening it
follows no symlink (see `safe_open`), so one put there after the decision is an error and not a way
out. A write goes into the approved directory, even if another one has its name by then, and creates
a new file: a hard link to the old one keeps the old content. It is not possible to detect whether a
file has another name outside: nothing on disk says which name came first.

Protected files are recognised under other names too (`ProtectedAliases`): `.roo` may be a symlink
to `settings/roo`, and a git directory with its hooks need not be called `.git`.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

from joey.core.path_access import DirectoryBoundary, ResolvedPath, get_relative_path
from joey.core.protected_paths import fold_name, is_protected
from joey.core.text import compile_regex
from joey.errors import ToolError, WorkspaceError
from joey.ports.workspace import Boundary, Files, FileStat
from joey.system.files import check_regular_file, create_file, replace_at, write_fully
from joey.workspace.ignore import IgnoreRules
from joey.workspace.safe_open import (
    find_directory_identity,
    lstat_at,
    lstat_path,
    open_directory,
    open_regular_file,
    resolve_real_path,
)

MAX_READ_BYTES = 64 * 1024 * 1024
_MAX_PATH_CHARS = 4096
_MAX_INLINE_BYTES = 256 * 1024
"""Up to here, moving work to a thread costs more than the work."""
_MAX_INLINE_STATS = 20
"""The same for files that are looked at."""
_CONTROL_CHARS_RE = compile_regex("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

_ABSENT_ERRORS: tuple[type[OSError], ...] = (FileNotFoundError, NotADirectoryError)

T = TypeVar("T")


class LocalFiles:
    """Files of this machine, as seen from one workspace."""

    def __init__(
        self,
        root: Path,
        on_written: Callable[[Path], None] | None = None,
        boundary: Boundary | None = None,
    ) -> None:
        """`on_written` is called with each file that was written here; without a `boundary`, the
        workspace's applies."""
        try:
            self.root = root.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise WorkspaceError(f"{root} cannot be used as a workspace: {error}") from error
        if not self.root.is_dir():
            raise WorkspaceError(f"{root} is not a folder.")
        shown = to_printable(str(self.root))
        if shown != str(self.root):
            raise WorkspaceError(f"{shown} cannot be used as a workspace: its name is not UTF-8.")
        self.ignore_rules = IgnoreRules(self.root)
        self._boundary = boundary or DirectoryBoundary((self.root,))
        self._protected_aliases = [ProtectedAliases(root) for root in self._boundary.roots]
        self._on_written = on_written

    def resolve(self, path: str) -> ResolvedPath:
        """Resolve a path. Relative ones start at the workspace; `~` has no special meaning. Raises
        ToolError if no file can have this name, or a part of the path keeps changing."""
        _check_usable_path(path)
        whole = self.root / path
        named = Path(os.path.normpath(whole))
        try:
            real = resolve_real_path(whole)
        except OSError as error:
            raise ToolError(f"{path} cannot be found: {error.strerror}.") from error
        _check_usable_path(str(real))
        relative, alias = self.to_relative(real), self.to_relative(named)
        shown = relative if relative is not None else str(real)
        within = {name for name in (alias, relative) if name is not None}
        ignored = any(self.ignore_rules.is_file_or_directory_hidden(name, real) for name in within)
        reach = self._boundary.get_access(real)
        return ResolvedPath(
            path_as_given=path,
            path=real,
            display_path=shown,
            is_inside=reach.is_inside,
            can_read_without_approval=reach.can_read_without_approval,
            can_write_without_approval=reach.can_write_without_approval,
            is_ignored=ignored,
            is_protected=self._is_protected(named, real, reach.base_directory),
            ignore_error=self.ignore_rules.error if ignored else "",
            directory_identity=find_directory_identity(real.parent),
        )

    def may_have_hidden_files(self) -> bool:
        return self.ignore_rules.has_rules()

    def can_show(self, place: ResolvedPath, path: Path) -> bool:
        """Whether a search or a listing of `place` may show a path below it: no path hidden from
        the run, unless the place itself is hidden and was allowed nevertheless."""
        return (
            not (place.is_inside or place.can_read_without_approval)
            or self._boundary.get_access(path).can_read_without_approval
        )

    def _is_protected(self, named: Path, real: Path, base: Path | None) -> bool:
        """Whether it is protected by its name or the given one, both relative to the run's
        directory that contains them."""
        if is_protected(_format_relative_to(base, real)) or any(
            aliases.is_protected_target(real) for aliases in self._protected_aliases
        ):
            return True
        known = self._boundary.roots if base is None else (*self._boundary.roots, base)
        around = next((root for root in known if get_relative_path(named, root) is not None), None)
        return (base is None or around is not None) and is_protected(
            _format_relative_to(around, named)
        )

    def to_relative(self, path: Path) -> str | None:
        """Return a resolved path relative to the root, or None if it is outside."""
        return get_relative_path(path, self.root)

    async def stat(self, path: ResolvedPath) -> FileStat:
        with _translate_errors("look at", path):
            return _stat_file(path)

    async def stat_all(self, paths: Sequence[ResolvedPath]) -> Sequence[FileStat]:
        return await _run_inline_or_in_thread(
            len(paths) <= _MAX_INLINE_STATS,
            lambda: [_stat_file(place, (OSError,)) for place in paths],
        )

    async def read(self, path: ResolvedPath, limit: int | None = None, offset: int = 0) -> bytes:
        most = MAX_READ_BYTES + 1 if limit is None else limit
        size = min(most, (await self.stat(path)).size - offset)
        if size > MAX_READ_BYTES:
            raise _build_too_large_error(path)
        with _translate_errors("read", path):
            data = await _run_inline_or_in_thread(
                size <= _MAX_INLINE_BYTES, lambda: _read_range(path.path, most, offset)
            )
        if len(data) > MAX_READ_BYTES:
            raise _build_too_large_error(path)
        return data

    async def write(
        self, path: ResolvedPath, data: bytes, mode_source: ResolvedPath | None = None
    ) -> None:
        with _translate_errors("write", path):
            # Without the bits that lend rights.
            mode = None if mode_source is None else lstat_path(mode_source.path).st_mode & 0o777
            await _run_inline_or_in_thread(
                len(data) <= _MAX_INLINE_BYTES, lambda: _replace_atomically(path, data, mode)
            )
            if self._on_written is not None:
                self._on_written(path.path)

    async def remove(self, path: ResolvedPath) -> None:
        name = path.path.name or "."
        with (
            _translate_errors("delete", path),
            open_directory(path.path.parent, identity=path.directory_identity) as directory,
        ):
            if _stat_writable_file(name, directory) is None:
                raise FileNotFoundError(errno.ENOENT, "there is no such file")
            os.unlink(name, dir_fd=directory)


def to_printable(path: str) -> str:
    """Return a path that can be sent as UTF-8, whatever bytes it has in the file system."""
    return os.fsencode(path).decode(errors="replace")


def to_printable_name(path: str) -> str:
    """Return a printable name on one line: it must not look like several, or like another one."""
    return _CONTROL_CHARS_RE.sub(lambda match: repr(match[0])[1:-1], to_printable(path))


def is_root_or_home(path: Path) -> bool:
    """Whether a resolved directory is not a project but the home of many: not to be walked."""
    try:
        home = Path.home()
    except RuntimeError:  # a user without one
        home = Path(path.anchor)
    return path in (Path(path.anchor), Path(os.path.realpath(home)))


def _format_relative_to(base: Path | None, path: Path) -> str:
    return str(path) if base is None else get_relative_path(path, base) or str(path)


def _stat_file(path: ResolvedPath, absent: tuple[type[OSError], ...] = _ABSENT_ERRORS) -> FileStat:
    """Stat a path; None for one of the errors `absent`."""
    try:
        facts = lstat_path(path.path)
    except absent:
        return FileStat(exists=False)
    return FileStat(
        exists=True,
        is_file=stat.S_ISREG(facts.st_mode),
        is_dir=stat.S_ISDIR(facts.st_mode),
        size=facts.st_size,
        mtime_ns=facts.st_mtime_ns,
    )


def _check_usable_path(path: str) -> None:
    problem = None
    if "\0" in path:
        problem = "it has a NUL character"
    elif len(path) > _MAX_PATH_CHARS:
        problem = f"it is longer than {_MAX_PATH_CHARS} characters"
    elif not path.isascii():
        try:
            path.encode()
        except UnicodeEncodeError:
            problem = "it has characters that no file name can have"
    if problem is not None:
        raise ToolError(f"{path[:80]!r} is not a usable path: {problem}.")


async def _run_inline_or_in_thread(is_small: bool, work: Callable[[], T]) -> T:
    if is_small:
        return work()
    from asyncio import to_thread  # those who only resolve paths do not load it

    return await to_thread(work)


def _build_too_large_error(path: ResolvedPath) -> ToolError:
    return ToolError(
        f"Cannot read {path.display_path}: it is larger than {MAX_READ_BYTES // 2**20} MB."
    )


@contextmanager
def _translate_errors(verb: str, path: ResolvedPath) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ToolError(f"Cannot {verb} {path.display_path}: {reason}.") from error


def _read_range(path: Path, max_bytes: int, offset: int) -> bytes:
    pieces: list[bytes] = []
    with open_regular_file(path) as descriptor:
        while max_bytes > 0 and (
            piece := os.pread(descriptor, min(max_bytes, 1024 * 1024), offset)
        ):
            pieces.append(piece)
            max_bytes -= len(piece)
            offset += len(piece)
    return b"".join(pieces)


def _replace_atomically(path: ResolvedPath, data: bytes, mode: int | None) -> None:
    """Write a new file next to the old one, then rename it; `mode` is for a file that does not
    exist yet."""
    name = path.path.name or "."
    with open_directory(
        path.path.parent, create=True, identity=path.directory_identity
    ) as directory:
        before = _stat_writable_file(name, directory)
        with (
            replace_at(directory, name) as temporary,
            create_file(temporary, 0o666, dir_fd=directory) as file,
        ):
            write_fully(file.fileno(), data)
            if before is not None:
                now = os.fstat(file.fileno())
                if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
                    # Only root may give files away; for others the file becomes theirs, as with
                    # any editor that saves by renaming.
                    with suppress(PermissionError):
                        os.fchown(file.fileno(), before.st_uid, before.st_gid)
                mode = stat.S_IMODE(before.st_mode)
            if mode is not None:
                os.fchmod(file.fileno(), mode)


def _stat_writable_file(name: str, directory: int) -> os.stat_result | None:
    """Stat the file that is about to be replaced or deleted, which must be a regular one."""
    if (facts := lstat_at(name, directory)) is None:
        return None
    check_regular_file(facts)
    if not os.access(name, os.W_OK, dir_fd=directory):
        raise PermissionError(errno.EACCES, "it is read-only")
    return facts


_protocol_check: type[Files] = LocalFiles


_MAX_SCANNED_ENTRIES = 20_000
_CTIME_SETTLE_NS = 20_000_000
"""Until then a folder may change again without looking different."""
_GIT_FILE = ".git"
_MAX_GIT_FILE_BYTES = 4096
_GIT_DIRECTORY_ENTRIES = frozenset(
    (
        *("hooks", "config", "config.worktree", "head", "commondir", "gitdir", "info", "objects"),
        *("refs", "packed-refs", "index", "logs", "modules", "worktrees", "rebase-merge"),
    )
)


class ProtectedAliases:
    """The current targets of protected names in the root of a workspace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cached_links: tuple[tuple[int, int] | None, tuple[Path, ...]] = (None, ())
        """What the root looked like, and what is in it: replaced as a whole, since threads ask
        too."""

    def is_protected_target(self, path: Path) -> bool:
        """Whether a resolved path is, or is in, something that is protected by another name."""
        try:
            targets = [resolve_real_path(link) for link in self._get_links()]
        except OSError:
            return True  # currently unknown
        return any(path.is_relative_to(target) for target in targets) or _is_in_git_directory(path)

    def _get_links(self) -> tuple[Path, ...]:
        try:
            facts = self._root.stat()
            seen, (before, links) = (facts.st_mtime_ns, facts.st_ctime_ns), self._cached_links
            if seen == before:
                return links
            with os.scandir(self._root) as entries:
                found = [
                    self._root / entry.name
                    for entry in islice(entries, _MAX_SCANNED_ENTRIES)
                    if entry.is_symlink() and is_protected(entry.name)
                ]
            named = _read_gitdir_file(self._root / _GIT_FILE)
            links = tuple(found if named is None else [*found, named])
        except OSError:
            # Nothing can be written in a folder that cannot be looked at.
            self._cached_links = (None, ())
            return ()
        is_settled = time.time_ns() - facts.st_ctime_ns > _CTIME_SETTLE_NS
        self._cached_links = (seen if is_settled else None, links)
        return links


def _read_gitdir_file(path: Path) -> Path | None:
    """Read a `.git` file, which names the git directory."""
    try:
        with open_regular_file(path) as descriptor:
            text = os.fsdecode(os.read(descriptor, _MAX_GIT_FILE_BYTES))
    except OSError:
        return None
    word, _, where = text.partition(":")
    return path.parent / where.strip() if word == "gitdir" and "\0" not in where else None


def _is_in_git_directory(path: Path) -> bool:
    """Whether a parent directory is a repository for git."""
    return any(
        all(os.path.lexists(above / name) for name in ("HEAD", "objects", "refs"))
        for above, entry in zip(path.parents, reversed(path.parts), strict=False)
        if fold_name(entry) in _GIT_DIRECTORY_ENTRIES
    )
