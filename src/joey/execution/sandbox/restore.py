"""The restoring of protected files after a command.

`ProtectedFileRestorer` remembers protected files as they were and puts them back;
`NewProtectedFileFinder` finds protected names that are new. The command's versions are not lost,
but moved to quarantine. Everything is done relative to open directories and without following
symlinks: background processes of the command may still be swapping names meanwhile.

A directory that has not changed since the scan has no new names. A name that was moved together
with its directory is not new. A directory that existed but was not scanned before (beyond the
scan's limit, or unreadable) is skipped: its protected names may have existed before.

Loaded by the supervisor: the standard library only, and little of it.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from joey.execution.sandbox import protected_scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")
    SavedEntry = dict[str, Any]
    """`seen` tells whether it was touched; then `link`, `data` or `entries` (not all if `is_cut`),
    `mode`, `times`."""

_MAX_FILE_BYTES = 1024**2
_MAX_TOTAL_BYTES = 8 * 1024**2
_MAX_ENTRIES = 2000
_MAX_DEPTH = 40
_OPEN_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_OPEN_PATH_FLAGS = os.O_PATH | os.O_NOFOLLOW
_OWNER_RWX_MODE = 0o700


class ProtectedFileRestorer:
    def __init__(
        self,
        root: str,
        names: list[str],
        pinned: list[str],
        quarantine_directory: str,
        own_writes_file: str,
    ) -> None:
        """`pinned` are directories whose contents may change but which must stay in place;
        `own_writes_file` has a line with inode and time for each file that joey wrote itself."""
        self._workspace = root
        self._quarantine_directory = quarantine_directory
        self._own_writes_file = own_writes_file
        self._remaining_bytes = _MAX_TOTAL_BYTES
        self._remaining_entries = _MAX_ENTRIES
        self._pinned_identities = {
            name: self._call_in_parent_directory(name, _stat_identity) for name in pinned
        }
        self._saved_entries = {
            name: self._call_in_parent_directory(name, self._save_entry) for name in names
        }

    def restore_all(self) -> list[str]:
        """Undo changes to protected files; return sentences about them."""
        try:
            with _OpenFile(self._workspace, _OPEN_PATH_FLAGS) as root:
                _grant_owner_access(root)
        except OSError:
            pass  # It belongs to another user, or is gone; the next steps report that.
        messages = [
            self._move_back_pinned(name)
            for name, was in self._pinned_identities.items()
            if self._call_in_parent_directory(name, _stat_identity) != was
        ]
        messages += filter(None, map(self._restore, self._saved_entries))
        return messages

    def _restore(self, name: str) -> str | None:
        kept = self._saved_entries[name]
        try:
            now = self._call_in_parent_directory(name, _stat_tree)
            if _is_unchanged(kept, now) or (now is not None and self._is_exempt(name)):
                return None
            where = self._quarantine(name) if now is not None else None
            if kept is None:
                return _describe_restored(name, "removed again", where)
            complete = self._call_in_parent_directory(
                name, lambda at, last: _restore_entry(at, last, kept)
            )
        except OSError as error:
            return f"{name} is protected but could not be put back: {error.strerror}."
        done = "put back as it was" if complete else "put back in part only, being too large"
        return _describe_restored(name, done, where)

    def quarantine_new(self, name: str) -> str | None:
        """Quarantine new protected files; return sentences about them."""
        try:
            if self._is_exempt(name):
                return None
            return _describe_restored(name, "removed again", self._quarantine(name))
        except OSError as error:
            return f"{name} is protected but could not be removed: {error.strerror}."

    def _is_exempt(self, name: str) -> bool:
        return self._is_own_write(name) or bool(
            self._call_in_parent_directory(name, self._overlaps_joey_home)
        )

    def _overlaps_joey_home(self, directory: int, name: str) -> bool:
        """Whether a path is, contains or is in joey's home, also through another mount of it."""
        self._create_quarantine_directory()
        place = os.path.dirname(os.path.dirname(self._quarantine_directory))
        with _OpenFile(place) as home:
            upwards = _list_ancestor_identities(home)
        is_around = _stat_identity(directory, name) in upwards
        return is_around or upwards[0] in _list_ancestor_identities(directory)

    def _is_own_write(self, name: str) -> bool:
        """Whether everything there is as joey itself has written it."""
        try:
            with open(self._own_writes_file, encoding="ascii") as file:
                lines = [line.split() for line in file]
            written = {(int(line[0]), int(line[1])) for line in lines if len(line) == 2}
            return bool(written) and _has_only_files_of(f"{self._workspace}/{name}", written)
        except OSError:
            return False  # It has written nothing, or the name is just changing.

    def _move_back_pinned(self, name: str) -> str:
        """Move a directory back if it is still in the workspace's root."""
        was = self._pinned_identities[name]
        try:
            if os.path.lexists(f"{self._workspace}/{name}"):
                self._quarantine(name)
            for each in os.listdir(self._workspace):
                if self._call_in_parent_directory(each, _stat_identity) == was:
                    os.rename(f"{self._workspace}/{each}", f"{self._workspace}/{name}")
                    return f"{name} is protected and was moved back from {each}."
        except OSError as error:
            return f"{name} is protected but could not be moved back: {error.strerror}."
        return f"{name} is protected, but it is gone."

    def _call_in_parent_directory(self, path: str, work: Callable[[int, str], T]) -> T | None:
        """Call `work` with the open parent directory of a path, and its last name."""
        try:
            directory = os.open(self._workspace, _OPEN_DIRECTORY_FLAGS)
        except OSError:
            return None
        *above, name = path.split("/")
        try:
            for each in above:
                inner = _open_directory(directory, each)
                os.close(directory)
                directory = inner
            return work(directory, name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        finally:
            os.close(directory)

    def _save_entry(self, directory: int, name: str, depth: int = 0) -> SavedEntry | None:
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        kept: SavedEntry = {"seen": _build_stat_signature(found), "mode": found.st_mode & 0o7777}
        kept["times"] = (found.st_atime_ns, found.st_mtime_ns)
        if stat.S_ISLNK(found.st_mode):
            kept["link"] = os.readlink(name, dir_fd=directory)
        elif stat.S_ISREG(found.st_mode) and found.st_size <= min(
            _MAX_FILE_BYTES, self._remaining_bytes
        ):
            self._remaining_bytes -= found.st_size
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(name, flags, dir_fd=directory), "rb") as file:
                kept["data"] = file.read(_MAX_FILE_BYTES)
        elif stat.S_ISDIR(found.st_mode) and depth < _MAX_DEPTH:
            with _OpenFile(name, directory=directory) as inner:
                names = os.listdir(inner)
                kept["is_cut"] = len(names) > self._remaining_entries
                del names[self._remaining_entries :]
                self._remaining_entries -= len(names)
                kept["entries"] = {each: self._save_entry(inner, each, depth + 1) for each in names}
        return kept

    def _quarantine(self, path: str) -> str | None:
        """Return where it is now; None if it disappeared by itself."""
        self._create_quarantine_directory()
        place = first_choice = f"{self._quarantine_directory}/{path.replace('/', '-')}"
        number = 1
        while os.path.lexists(place):
            number += 1
            place = f"{first_choice}-{number}"
        return self._call_in_parent_directory(
            path, lambda at, name: self._move_to_quarantine(at, name, place)
        )

    def _create_quarantine_directory(self) -> None:
        place = self._quarantine_directory
        for directory in (os.path.dirname(place), place):  # parents get no mode
            os.makedirs(directory, mode=_OWNER_RWX_MODE, exist_ok=True)

    def _move_to_quarantine(self, directory: int, name: str, place: str) -> str:
        _make_owner_writable(directory, name)
        try:
            os.rename(name, place, src_dir_fd=directory)
            return place
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise  # It would be moved into itself.
            if self._copy_to_quarantine(directory, name, place):
                return place
        # Under a meaningless name it is harmless too, and nothing is lost.
        beside = f"{name}.put-aside-{time.time_ns()}"
        os.rename(name, beside, src_dir_fd=directory, dst_dir_fd=directory)
        return beside

    def _copy_to_quarantine(self, directory: int, name: str, place: str) -> bool:
        """Copy it to another disk; False if not all of it could be copied."""
        self._remaining_bytes, self._remaining_entries = _MAX_TOTAL_BYTES, _MAX_ENTRIES
        try:
            with _OpenFile(os.path.dirname(place)) as above:
                kept = self._save_entry(directory, name)
                if kept is None:
                    return True
                is_whole = _restore_entry(above, os.path.basename(place), kept)
            if not is_whole or not self._remaining_entries:
                return False
            if not _is_unchanged(kept, _stat_tree(directory, name)):
                return False  # It was changed while it was copied.
            if "entries" in kept:
                from shutil import rmtree  # slow to import, and rarely needed

                rmtree(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)
            return True
        except OSError:
            return False


class _OpenFile:
    """An open directory, or another file by `flags`; the context manager closes it."""

    def __init__(
        self, path: str, flags: int = _OPEN_DIRECTORY_FLAGS, directory: int | None = None
    ) -> None:
        self._descriptor = os.open(path, flags, dir_fd=directory)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _describe_restored(name: str, done: str, quarantined_at: str | None) -> str:
    kept_at = f"; what it had become is in {quarantined_at}" if quarantined_at else ""
    return f"{name} is protected and was {done}{kept_at}."


def _has_only_files_of(place: str, written: set[tuple[int, int]]) -> bool:
    found = os.stat(place, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        return stat.S_ISREG(found.st_mode) and (found.st_ino, found.st_ctime_ns) in written
    with os.scandir(place) as entries:
        return all(_has_only_files_of(entry.path, written) for entry in entries)


def _stat_identity(directory: int, name: str) -> tuple[int, int]:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return found.st_dev, found.st_ino


def _list_ancestor_identities(directory: int) -> list[tuple[int, int]]:
    """List the identities of an open directory and its parents."""
    found: list[tuple[int, int]] = []
    path = "."
    while (identity := _stat_identity(directory, path)) not in found:  # the root is its own parent
        found.append(identity)
        path += "/.."
    return found


def _open_directory(directory: int, name: str) -> int:
    """Open a directory, even one that a command has made inaccessible to its owner."""
    try:
        return os.open(name, _OPEN_DIRECTORY_FLAGS, dir_fd=directory)
    except PermissionError:
        _make_owner_writable(directory, name)
        return os.open(name, _OPEN_DIRECTORY_FLAGS, dir_fd=directory)


def _make_owner_writable(directory: int, name: str) -> None:
    """Let the owner change names in a directory, and move its entries: directories among them must
    be writable themselves."""
    _grant_owner_access(directory)
    with _OpenFile(name, _OPEN_PATH_FLAGS, directory) as place:
        _grant_owner_access(place)


def _grant_owner_access(descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode) and mode & _OWNER_RWX_MODE != _OWNER_RWX_MODE:
        os.chmod(f"/proc/self/fd/{descriptor}", mode & 0o7777 | _OWNER_RWX_MODE)


def _stat_tree(directory: int, name: str, depth: int = 0) -> SavedEntry | None:
    """Stat a tree, without file contents."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    now: SavedEntry = {"seen": _build_stat_signature(found)}
    if stat.S_ISDIR(found.st_mode) and depth < _MAX_DEPTH:
        inner = _open_directory(directory, name)
        try:
            names = os.listdir(inner)[:_MAX_ENTRIES]
            now["entries"] = {each: _stat_tree(inner, each, depth + 1) for each in names}
        finally:
            os.close(inner)
    return now


def _is_unchanged(kept: SavedEntry | None, now: SavedEntry | None) -> bool:
    if kept is None or now is None:
        return kept is now
    if kept["seen"] != now["seen"]:
        return False
    before, after = kept.get("entries", {}), now.get("entries", {})
    same = before.keys() <= after.keys() if kept.get("is_cut") else before.keys() == after.keys()
    return same and all(_is_unchanged(before[each], after[each]) for each in before)


def _build_stat_signature(found: os.stat_result) -> tuple[int, ...]:
    """Build a signature from an inode's change time, which only the kernel sets."""
    if stat.S_ISDIR(found.st_mode):
        return (found.st_ino, found.st_mode)
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _restore_entry(directory: int, name: str, kept: SavedEntry) -> bool:
    """Restore an entry; False if not all of it could be restored."""
    if "link" in kept:
        os.symlink(kept["link"], name, dir_fd=directory)
        return True
    if "entries" in kept:
        os.mkdir(name, dir_fd=directory)
        with _OpenFile(name, directory=directory) as inner:
            complete = not kept["is_cut"]
            for each, below in kept["entries"].items():
                complete = (below is None or _restore_entry(inner, each, below)) and complete
            os.fchmod(inner, kept["mode"])
            os.utime(inner, ns=kept["times"])
        return complete
    if "data" not in kept:
        return False
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(name, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(kept["data"])
        file.flush()
        os.fchmod(file.fileno(), kept["mode"])
        os.utime(file.fileno(), ns=kept["times"])
    return True


_CLOCK_REALTIME_COARSE = 5
"""The clock that file systems take their timestamps from."""


class NewProtectedFileFinder:
    def __init__(
        self,
        root: str,
        known: dict[str, protected_scan.ScannedDirectory],
        guarded: set[str],
        left_out: set[str],
    ) -> None:
        """`guarded` are paths that are restored with all their contents, `left_out` those that the
        user has opened."""
        self._workspace = root
        self._scanned_directories = known
        self._restored_paths = guarded
        self._excluded_paths = guarded | left_out
        self._known_name_identities = {
            (inode, changed) for directory in known.values() for _, inode, changed in directory[3]
        }
        self._scanned_inodes = {directory[1] for directory in known.values()}
        self._is_scan_complete = "" in known and all(
            path in known for directory in known.values() for path in directory[2]
        )
        self._started_at_ns = time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)

    def find_new_paths(self) -> list[str]:
        """Find new paths below the root, parents first."""
        root, known, found = f"{self._workspace}/", self._scanned_directories.get, list[str]()
        look, pending = os.lstat, [""]
        for path in pending:  # grows while it is walked
            try:
                seen = look(root + path)
                directory = known(path)
                if directory is not None and directory[1] == seen.st_ino:
                    if directory[0] == seen.st_ctime_ns:
                        if directory[2]:
                            pending += filter(self._scanned_directories.__contains__, directory[2])
                        continue
                elif not stat.S_ISDIR(seen.st_mode) or not self._is_new_or_scanned(
                    root + path, seen
                ):
                    continue
                else:
                    directory = None  # it is new, or was replaced
                prefix = f"{path}/" if path else ""
                directories, names = self._find_subdirectories_and_new_names(
                    root + path, prefix, directory[3] if directory else ()
                )
            except OSError:
                continue  # It went away.
            pending += directories
            found += names
        return found

    def _is_new_or_scanned(self, place: str, seen: os.stat_result) -> bool:
        """Whether a directory that was not scanned at this path is new, or was scanned at another
        path; any other may have had these names before."""
        if self._is_scan_complete or seen.st_ino in self._scanned_inodes:
            return True
        from joey.execution.sandbox import kernel  # ctypes takes its time to load

        born = kernel.read_birth_time_ns(place)
        return born is not None and born >= self._started_at_ns

    def _find_subdirectories_and_new_names(
        self, place: str, prefix: str, known: tuple[protected_scan.ProtectedName, ...]
    ) -> tuple[list[str], list[str]]:
        before = {name: inode for name, inode, _ in known}
        directories: list[str] = []
        names: list[str] = []
        with _scandir_making_accessible(place) as entries:
            for entry in entries:
                path = prefix + entry.name
                if protected_scan.is_protected_name(entry.name):
                    if path not in self._excluded_paths and before.get(entry.name) != entry.inode():
                        found = entry.stat(follow_symlinks=False)
                        if (found.st_ino, found.st_ctime_ns) not in self._known_name_identities:
                            names.append(path)
                elif protected_scan.is_scanned(entry) and path not in self._restored_paths:
                    directories.append(path)
        return directories, names if len(known) < protected_scan.MAX_NAMES_PER_DIRECTORY else []


def _scandir_making_accessible(place: str) -> Any:
    """Scan a directory, even one that a command has made inaccessible to its owner."""
    try:
        return os.scandir(place)
    except PermissionError:
        with _OpenFile(place, _OPEN_PATH_FLAGS) as directory:
            _grant_owner_access(directory)
        return os.scandir(place)
