"""History of prompts, per workspace: stored in a file, browsed with Up, searched with Ctrl+R.

One file for all workspaces, one JSON document per line. Several processes may write at once: each
line is written under a lock. A process that finds the file too large replaces it by its newer
part; one that waited for the lock meanwhile sees that the name refers to another file now, and
opens that.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, field

from joey.core.redaction import redact_log_line, redact_secrets
from joey.presentation.text import sanitize, to_one_line
from joey.system.files import (
    PRIVATE_FILE_MODE,
    check_regular_file,
    make_private_directory,
    open_private_file,
    open_regular_file,
    replace_file,
    write_fully,
)
from joey.system.locks import try_lock
from joey.tui.widgets.completion import CompletionChoice, CompletionList
from joey.tui.widgets.draft import Draft, to_visible_text

HISTORY_FILE_NAME = "prompt-history.jsonl"
_MAX_FILE_BYTES = 2 * 1024 * 1024
_MAX_ENTRY_BYTES = 64 * 1024
_MAX_PROMPTS = 1_000
"""Of a folder."""
_LOCK_ATTEMPTS, _LOCK_RETRY_INTERVAL_S = 50, 0.002


class StoredPrompt(Struct, frozen=True, omit_defaults=True):
    timestamp_ms: int = field(name="at")
    directory: str = field(name="folder")
    text: str
    pasted: dict[int, str] = {}
    shell: bool = False


class PromptHistory:
    """The prompts of one folder, the oldest first.

    Without a file they live as long as this process. A prompt in which a key seems to be is
    never written, and neither are images.
    """

    def __init__(
        self, file: Path | None, directory: Path, redactor: Callable[[str], str] = redact_secrets
    ) -> None:
        self._file = file
        self._directory = str(directory)
        self._redactor = redactor
        self._drafts: list[Draft] = []
        self._unwritten_prompts: list[StoredPrompt] = []
        self._last_timestamp_ms = 0
        self._last_read_state: tuple[int, int] | None = None
        """Which file was read, and how much was in it."""
        self.storage_error = ""
        """Why the file cannot be used, in a sentence."""

    def load_drafts(self) -> list[Draft]:
        """Read again when somebody wrote more; not to be changed."""
        if self._file is None:
            return self._drafts
        try:
            status = self._file.stat()
            seen = status.st_ino, status.st_size
            if seen != self._last_read_state:
                entries = [*_read_prompts(self._file, self._directory), *self._unwritten_prompts]
                self._drafts = [
                    _to_draft(one) for one in sorted(entries, key=_get_timestamp)[-_MAX_PROMPTS:]
                ]
                self._last_read_state = seen
        except FileNotFoundError:
            return self._drafts
        except OSError as error:
            self._set_storage_error(error)
        return self._drafts

    def add(self, draft: Draft) -> None:
        """Remember what was sent; the same twice in a row is one."""
        known = self.load_drafts()
        if known and known[-1] == draft:
            return
        known.append(draft)
        del known[:-_MAX_PROMPTS]
        self._last_timestamp_ms = max(time.time_ns() // 1_000_000, self._last_timestamp_ms + 1)
        entry = StoredPrompt(
            self._last_timestamp_ms,
            self._directory,
            draft.text,
            draft.pastes,
            draft.is_shell_command,
        )
        if self._file is None or not self._try_to_write(self._file, entry):
            self._unwritten_prompts.append(entry)

    def _try_to_write(self, file: Path, entry: StoredPrompt) -> bool:
        text = "\n".join((entry.text, *entry.pasted.values()))
        if redact_log_line(text, self._redactor) != text:
            return False
        line = msgspec.json.encode(entry) + b"\n"
        if len(line) > _MAX_ENTRY_BYTES:
            return False
        try:
            make_private_directory(file.parent)
            with _open_locked(file) as descriptor:
                nobody_else_wrote = _read_file_state(descriptor) == self._last_read_state
                _append_line(descriptor, line)
                if nobody_else_wrote:
                    self._last_read_state = _read_file_state(descriptor)
                if os.fstat(descriptor).st_size > _MAX_FILE_BYTES:
                    _drop_older_prompts(file, descriptor)
        except OSError as error:
            self._set_storage_error(error)
            return False
        return True

    def _set_storage_error(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        self.storage_error = f"prompts are not kept in {self._file}: {reason}"


class HistoryBrowser:
    """Going through the history and back to the draft; what was changed on the way stays so."""

    def __init__(self, history: PromptHistory) -> None:
        self._history = history
        self._steps_back = 0
        """How many prompts back; 0 is what is being written."""
        self._edited_drafts: dict[int, Draft] = {}
        self._drafts: list[Draft] = []

    def move_to_older(self, current: Draft) -> Draft | None:
        return self._move(current, 1)

    def move_to_newer(self, current: Draft) -> Draft | None:
        return self._move(current, -1)

    def _move(self, current: Draft, steps: int) -> Draft | None:
        if self._steps_back == 0:
            self._drafts = list(self._history.load_drafts())
        at = self._steps_back + steps
        if not 0 <= at <= len(self._drafts):
            return None
        self._edited_drafts[self._steps_back] = current
        self._steps_back = at
        edited = self._edited_drafts.get(at)
        return edited if edited is not None else self._drafts[-at]


@contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """The file that has this name once nobody else writes to it."""
    for _ in range(_LOCK_ATTEMPTS):
        descriptor = open_private_file(path, os.O_RDWR | os.O_APPEND | os.O_NONBLOCK)
        try:
            check_regular_file(os.fstat(descriptor))
            if not try_lock(descriptor):
                time.sleep(_LOCK_RETRY_INTERVAL_S)
                continue
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                os.fchmod(descriptor, PRIVATE_FILE_MODE)
                yield descriptor
                return
        finally:
            os.close(descriptor)
    raise BlockingIOError(errno.EAGAIN, "another process holds it")


def _read_file_state(descriptor: int) -> tuple[int, int]:
    facts = os.fstat(descriptor)
    return facts.st_ino, facts.st_size


def _append_line(descriptor: int, line: bytes) -> None:
    """Behind whole lines only: a process may have died in the middle of one."""
    size = os.fstat(descriptor).st_size
    torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
    write_fully(descriptor, b"\n" + line if torn else line)


def _drop_older_prompts(path: Path, descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    newer = os.pread(descriptor, _MAX_FILE_BYTES // 2, size - _MAX_FILE_BYTES // 2)
    replace_file(path, newer.partition(b"\n")[2])


def _get_timestamp(entry: StoredPrompt) -> int:
    return entry.timestamp_ms


def _to_draft(entry: StoredPrompt) -> Draft:
    """Anybody may have written into the file."""
    pasted = {number: sanitize(text) for number, text in entry.pasted.items()}
    return Draft(sanitize(entry.text), pasted, {}, entry.shell)


def _read_prompts(path: Path, directory: str) -> Iterator[StoredPrompt]:
    """Lines that are no entries are passed over: another version, or half written."""
    with open_regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - 2 * _MAX_FILE_BYTES))
        data = file.read(2 * _MAX_FILE_BYTES)
    for line in data.split(b"\n"):
        try:
            entry = _prompt_decoder.decode(line)
        except msgspec.DecodeError:
            continue
        if entry.directory == directory:
            yield entry


_prompt_decoder = msgspec.json.Decoder(StoredPrompt)


_MAX_SEARCH_RESULTS = 100


class HistorySearch:
    """Shown in the composer's list; what is being written stays as it is until one is taken."""

    def __init__(self, history: PromptHistory, completion_list: CompletionList) -> None:
        self._history = history
        self._completion_list = completion_list
        self._query = ""
        self._matching_drafts: list[Draft] = []
        self.is_active = False

    def start(self) -> None:
        self.is_active = True
        self._query = ""
        self._update_results()

    def cancel(self) -> None:
        if self.is_active:
            self.is_active = False
            self._completion_list.close()

    def accept(self) -> Draft | None:
        """The chosen one; None when nothing was found."""
        chosen = (
            self._matching_drafts[self._completion_list.cursor_index]
            if self._matching_drafts
            else None
        )
        self.cancel()
        return chosen

    def append_to_query(self, text: str) -> None:
        self._query += to_one_line(text)
        self._update_results()

    def handle_key(self, key: str, character: str | None) -> bool:
        """What is done with a key without taking anything or leaving."""
        match key:
            case "ctrl+r" | "down" | "ctrl+n":
                self._completion_list.move_cursor(1)
            case "ctrl+s" | "up" | "ctrl+p":
                self._completion_list.move_cursor(-1)
            case "backspace" | "ctrl+h":
                self._query = self._query[:-1]
                self._update_results()
            case "ctrl+u":
                self._query = ""
                self._update_results()
            case _ if character is not None and character.isprintable():
                self._query += character
                self._update_results()
            case _:
                return False
        return True

    def _update_results(self) -> None:
        """The latest first, each text once."""
        query = self._query.lower()
        found: dict[str, Draft] = {}
        for draft in reversed(self._history.load_drafts()):
            if query in draft.text.lower():
                found.setdefault(draft.text, draft)
            if len(found) == _MAX_SEARCH_RESULTS:
                break
        self._matching_drafts = list(found.values())
        shown = [CompletionChoice(_format_prompt(draft), "", "") for draft in self._matching_drafts]
        nothing = "" if shown else " (nothing found)"
        self._completion_list.show_choices(
            shown, f"search in earlier prompts: {self._query}{nothing}"
        )


def _format_prompt(draft: Draft) -> str:
    return (
        f"{'! ' if draft.is_shell_command else ''}{to_one_line(to_visible_text(draft.text), 300)}"
    )
