"""History of prompts, per workspace: stored in a file, browsed with Up, searched with Ctrl+R.

One file for all workspaces, one JSON document per line. Several processes may write at once: each
line is written under a lock. A process that finds the file too large replaces it by its newer
part; one that waited for the lock meanwhile sees that the name refers to another file now, and
opens that.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, field

from joey.core.redaction import redact_log_line, redact_secrets
from joey.presentation.text import sanitize, to_one_line
from joey.system.files import make_private_directory
from joey.tui.widgets.completion import CompletionChoice, CompletionList
from joey.tui.widgets.draft import Draft, visible

HISTORY_FILE_NAME = "prompt-history.jsonl"
_MAX_FILE_BYTES = 2 * 1024 * 1024
_MAX_ENTRY_BYTES = 64 * 1024
_MAX_PROMPTS = 1_000
"""Prompts of a folder that are gone through."""
_FILE_MODE = 0o600
_LOCK_ATTEMPTS, _LOCK_RETRY_INTERVAL_S = 50, 0.002
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class StoredPrompt(Struct, frozen=True, omit_defaults=True):
    at: int
    directory: str = field(name="folder")
    text: str
    pasted: dict[int, str] = {}
    shell: bool = False


class PromptHistory:
    """The prompts of one folder, the oldest first.

    Without a file they live as long as this process. A prompt in which a key seems to be is
    never written, and neither are pictures.
    """

    def __init__(
        self, file: Path | None, directory: Path, blot: Callable[[str], str] = redact_secrets
    ) -> None:
        self._file = file
        self._directory = str(directory)
        self._blot = blot
        self._drafts: list[Draft] = []
        self._unwritten: list[StoredPrompt] = []
        self._latest = 0
        self._seen: tuple[int, int] | None = None
        """Which file was read, and how much was in it."""
        self.storage_error = ""
        """Why the file cannot be used, in a sentence."""

    def drafts(self) -> list[Draft]:
        """Read again when somebody wrote more; not to be changed."""
        if self._file is None:
            return self._drafts
        try:
            facts = self._file.stat()
            seen = facts.st_ino, facts.st_size
            if seen != self._seen:
                entries = [*_read(self._file, self._directory), *self._unwritten]
                self._drafts = [_draft(one) for one in sorted(entries, key=_time)[-_MAX_PROMPTS:]]
                self._seen = seen
        except FileNotFoundError:
            return self._drafts
        except OSError as error:
            self._complain(error)
        return self._drafts

    def add(self, draft: Draft) -> None:
        """Remember what was sent; the same twice in a row is one."""
        known = self.drafts()
        if known and known[-1] == draft:
            return
        known.append(draft)
        del known[:-_MAX_PROMPTS]
        self._latest = max(time.time_ns() // 1_000_000, self._latest + 1)
        entry = StoredPrompt(self._latest, self._directory, draft.text, draft.pasted, draft.shell)
        if self._file is None or not self._try_to_keep(entry):
            self._unwritten.append(entry)

    def _try_to_keep(self, entry: StoredPrompt) -> bool:
        text = "\n".join((entry.text, *entry.pasted.values()))
        if redact_log_line(text, self._blot) != text:
            return False
        line = msgspec.json.encode(entry) + b"\n"
        if len(line) > _MAX_ENTRY_BYTES:
            return False
        try:
            assert self._file is not None
            make_private_directory(self._file.parent)
            with _locked(self._file) as descriptor:
                nobody_else_wrote = _state(descriptor) == self._seen
                _append(descriptor, line)
                if nobody_else_wrote:
                    self._seen = _state(descriptor)
                if os.fstat(descriptor).st_size > _MAX_FILE_BYTES:
                    _shorten(self._file, descriptor)
        except OSError as error:
            self._complain(error)
            return False
        return True

    def _complain(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        self.storage_error = f"prompts are not kept in {self._file}: {reason}"


class HistoryBrowser:
    """Going through the history and back to the draft; what was changed on the way stays so."""

    def __init__(self, past: PromptHistory) -> None:
        self._past = past
        self._at = 0
        """How many prompts back; 0 is what is being written."""
        self._changed: dict[int, Draft] = {}
        self._drafts: list[Draft] = []

    def older(self, current: Draft) -> Draft | None:
        return self._move(current, 1)

    def newer(self, current: Draft) -> Draft | None:
        return self._move(current, -1)

    def _move(self, current: Draft, steps: int) -> Draft | None:
        if self._at == 0:
            self._drafts = list(self._past.drafts())
        at = self._at + steps
        if not 0 <= at <= len(self._drafts):
            return None
        self._changed[self._at] = current
        self._at = at
        kept = self._changed.get(at)
        return kept if kept is not None else self._drafts[-at]


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file that has this name once nobody else writes to it."""
    for _ in range(_LOCK_ATTEMPTS):
        descriptor = os.open(path, _OPEN_FLAGS, _FILE_MODE)
        try:
            _check_is_file(descriptor)
            if not _try_lock(descriptor):
                time.sleep(_LOCK_RETRY_INTERVAL_S)
                continue
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                os.fchmod(descriptor, _FILE_MODE)
                yield descriptor
                return
        finally:
            os.close(descriptor)
    raise BlockingIOError(errno.EAGAIN, "another process holds it")


def _check_is_file(descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _state(descriptor: int) -> tuple[int, int]:
    facts = os.fstat(descriptor)
    return facts.st_ino, facts.st_size


def _append(descriptor: int, line: bytes) -> None:
    """Behind whole lines only: a process may have died in the middle of one."""
    size = os.fstat(descriptor).st_size
    torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
    rest = memoryview(b"\n" + line if torn else line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _shorten(path: Path, descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    newer = os.pread(descriptor, _MAX_FILE_BYTES // 2, size - _MAX_FILE_BYTES // 2)
    lines = newer.partition(b"\n")[2]
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE), "wb") as file:
        file.write(lines)
    new.replace(path)


def _time(entry: StoredPrompt) -> int:
    return entry.at


def _draft(entry: StoredPrompt) -> Draft:
    """Anybody may have written into the file."""
    pasted = {number: sanitize(text) for number, text in entry.pasted.items()}
    return Draft(sanitize(entry.text), pasted, {}, entry.shell)


def _read(path: Path, directory: str) -> Iterator[StoredPrompt]:
    """Lines that are no entries are passed over: another version, or half written."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _check_is_file(file.fileno())
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - 2 * _MAX_FILE_BYTES))
        data = file.read(2 * _MAX_FILE_BYTES)
    for line in data.split(b"\n"):
        try:
            entry = _decoder.decode(line)
        except msgspec.DecodeError:
            continue
        if entry.directory == directory:
            yield entry


_decoder = msgspec.json.Decoder(StoredPrompt)


_MAX_SEARCH_RESULTS = 100


class HistorySearch:
    """Shown in the composer's list; what is being written stays as it is until one is taken."""

    def __init__(self, past: PromptHistory, choices: CompletionList) -> None:
        self._past = past
        self._choices = choices
        self._query = ""
        self._found: list[Draft] = []
        self.is_on = False

    def begin(self) -> None:
        self.is_on = True
        self._query = ""
        self._search()

    def leave(self) -> None:
        if self.is_on:
            self.is_on = False
            self._choices.close()

    def take(self) -> Draft | None:
        """The chosen one; None when nothing was found."""
        chosen = self._found[self._choices.at] if self._found else None
        self.leave()
        return chosen

    def type(self, text: str) -> None:
        self._query += to_one_line(text)
        self._search()

    def handle(self, key: str, character: str | None) -> bool:
        """What is done with a key without taking anything or leaving."""
        match key:
            case "ctrl+r" | "down" | "ctrl+n":
                self._choices.move(1)
            case "ctrl+s" | "up" | "ctrl+p":
                self._choices.move(-1)
            case "backspace" | "ctrl+h":
                self._query = self._query[:-1]
                self._search()
            case "ctrl+u":
                self._query = ""
                self._search()
            case _ if character is not None and character.isprintable():
                self._query += character
                self._search()
            case _:
                return False
        return True

    def _search(self) -> None:
        """The latest first, each text once."""
        query = self._query.lower()
        found: dict[str, Draft] = {}
        for draft in reversed(self._past.drafts()):
            if query in draft.text.lower():
                found.setdefault(draft.text, draft)
            if len(found) == _MAX_SEARCH_RESULTS:
                break
        self._found = list(found.values())
        shown = [CompletionChoice(_shown(draft), "", "") for draft in self._found]
        nothing = "" if shown else " (nothing found)"
        self._choices.open(shown, f"search in earlier prompts: {self._query}{nothing}")


def _shown(draft: Draft) -> str:
    return f"{'! ' if draft.shell else ''}{to_one_line(visible(draft.text), 300)}"
