"""Files of a git tree, put into the place of others: each in one step, links never followed."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from joey.workspace.descent import open_folder

_LINK, _REPOSITORY, _PROGRAM = "120000", "160000", "100755"
_ABSENT = "000000"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Looks = Mapping[bytes, tuple[int, ...] | None]


class Change(Struct, frozen=True):
    """One file, before and after, by the modes that git has for them."""

    path: bytes
    """From the top of the repository."""
    before: str
    after: str

    @property
    def is_new(self) -> bool:
        return self.before == _ABSENT

    @property
    def is_gone(self) -> bool:
        return self.after == _ABSENT

    @property
    def is_repository(self) -> bool:
        return _REPOSITORY in (self.before, self.after)


def parse_raw(listed: bytes) -> list[Change]:
    """What `git diff-tree --raw -z` prints."""
    fields = listed.split(b"\0")
    changes = []
    for facts, path in zip(fields[0::2], fields[1::2], strict=False):
        before, after = facts.decode().lstrip(":").split(" ")[:2]
        changes.append(Change(path, before, after))
    return changes


class ChangedMeanwhileError(Exception):
    """Somebody else wrote to a file just now."""


def look(top: Path, changes: Iterable[Change]) -> Looks:
    """What the files look like before they are changed."""
    return {change.path: _look(top / os.fsdecode(change.path)) for change in changes}


def apply(top: Path, changes: Sequence[Change], made: Path, looks: Looks) -> None:
    """Make the files of `top` what they shall be; `made` holds the new ones under their paths.

    Raises:
        ChangedMeanwhileError: one does not look as before; those before it are done.
        OSError
    """
    for change in (*(c for c in changes if c.is_gone), *(c for c in changes if not c.is_gone)):
        relative = os.fsdecode(change.path)
        place = top / relative
        _refuse_links(top, place)
        # A link that is put there from here on is an error, and not a way out.
        try:
            with open_folder(place.parent, create=not change.is_gone) as folder:
                before = _facts(place.name, folder)
                is_folder = before is not None and stat.S_ISDIR(before.st_mode)
                if not is_folder and _summary(before) != looks[change.path]:
                    raise ChangedMeanwhileError(relative)
                if not change.is_gone:
                    _put(place.name, folder, before, made / relative, change)
                elif before is not None:
                    _remove(place.name, folder)
        except FileNotFoundError as error:
            if not change.is_gone or looks[change.path] is not None:
                raise ChangedMeanwhileError(relative) from error
        if change.is_gone:
            _prune(top, place.parent)


def _look(place: Path) -> tuple[int, ...] | None:
    try:
        return _summary(place.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _facts(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _summary(facts: os.stat_result | None) -> tuple[int, ...] | None:
    if facts is None:
        return None
    return facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _refuse_links(top: Path, place: Path) -> None:
    for folder in place.parents:
        if folder == top:
            return
        if folder.is_symlink():
            raise OSError(f"{folder} is a link")


def _prune(top: Path, folder: Path) -> None:
    """Remove a directory and those above it, as long as they are empty."""
    with suppress(OSError):  # others are still in it
        while folder != top:
            with open_folder(folder.parent) as above:
                os.rmdir(folder.name, dir_fd=above)
            folder = folder.parent


def _remove(name: str, folder: int) -> None:
    os.unlink(name, dir_fd=folder)


def _put(name: str, folder: int, before: os.stat_result | None, made: Path, change: Change) -> None:
    if before is not None and stat.S_ISDIR(before.st_mode):
        os.rmdir(name, dir_fd=folder)  # its files are gone by now, or it is not ours to remove
    temporary = f".joey-{secrets.token_hex(8)}.tmp"
    try:
        if change.after == _LINK:
            os.symlink(made.readlink(), temporary, dir_fd=folder)
        else:
            _write(temporary, folder, before, made, is_program=change.after == _PROGRAM)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _write(
    temporary: str, folder: int, before: os.stat_result | None, made: Path, *, is_program: bool
) -> None:
    usual = 0o777 if is_program else 0o666
    descriptor = os.open(temporary, _NEW, usual, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        if before is not None and stat.S_ISREG(before.st_mode):
            mode = stat.S_IMODE(before.st_mode) & 0o777
            runs = (mode & 0o444) >> 2
            os.fchmod(descriptor, mode | runs if is_program else mode & ~0o111)
        file.write(made.read_bytes())
