"""Files of a git tree, put into the place of others: each in one step, links never followed."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_LINK, _REPOSITORY, _PROGRAM = "120000", "160000", "100755"
_ABSENT = "000000"

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
        is_folder = place.is_dir() and not place.is_symlink()
        if not is_folder and _look(place) != looks[change.path]:
            raise ChangedMeanwhileError(relative)
        _refuse_links(top, place)
        if change.is_gone:
            _remove(top, place)
        else:
            _put(place, made / relative, change)


def _look(place: Path) -> tuple[int, ...] | None:
    try:
        facts = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _refuse_links(top: Path, place: Path) -> None:
    for folder in place.parents:
        if folder == top:
            return
        if folder.is_symlink():
            raise OSError(f"{folder} is a link")


def _remove(top: Path, place: Path) -> None:
    place.unlink(missing_ok=True)
    with suppress(OSError):  # others are still in it
        for folder in place.parents:
            if folder == top:
                return
            folder.rmdir()


def _put(place: Path, made: Path, change: Change) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        place.rmdir()  # its files are gone by now, or it is not ours to remove
    temporary = place.parent / f".joey-{secrets.token_hex(8)}.tmp"
    try:
        if change.after == _LINK:
            temporary.symlink_to(made.readlink())
        else:
            _write(temporary, made, place, is_program=change.after == _PROGRAM)
        temporary.replace(place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write(temporary: Path, made: Path, place: Path, *, is_program: bool) -> None:
    usual = 0o777 if is_program else 0o666
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, usual)
    with os.fdopen(descriptor, "wb") as file:
        if place.is_file() and not place.is_symlink():
            mode = stat.S_IMODE(place.stat().st_mode) & 0o777
            runs = (mode & 0o444) >> 2
            os.fchmod(descriptor, mode | runs if is_program else mode & ~0o111)
        file.write(made.read_bytes())
