"""History of prompts, per workspace: stored in a database, browsed with Up, searched with Ctrl+R.

One SQLite file for all workspaces and processes. The text file of earlier versions is imported into
it once.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from joey.core.redaction import redact_log_line, redact_secrets
from joey.presentation.text import sanitize, to_one_line
from joey.system.files import make_private_directory, read_regular_file
from joey.tui.widgets.completion import CompletionChoice, CompletionList
from joey.tui.widgets.draft import Draft, to_visible_text

if TYPE_CHECKING:
    import sqlite3

HISTORY_FILE_NAME = "prompt-history.sqlite"
_TEXT_FILE_SUFFIX = ".jsonl"
_MAX_FILE_BYTES = 2 * 1024 * 1024
_MAX_ENTRY_BYTES = 64 * 1024
_MAX_PROMPTS = 1_000
"""Of a folder."""
_FILE_MODE = 0o600
_LOCK_TIMEOUT_S = 5.0


class StoredPrompt(Struct, frozen=True, omit_defaults=True):
    timestamp_ms: int = field(name="at")
    directory: str = field(name="folder")
    text: str
    pasted: dict[int, str] = {}
    shell: bool = False


class PromptHistory:
    """The prompts of one directory, the oldest first.

    Without a file they are lost with this process. A prompt that seems to contain a key is never
    written, nor are images.
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
        self._newest_id: int | None = None
        """The latest prompt of all folders when the file was read."""
        self.storage_error = ""
        """Why the file cannot be used, in a sentence."""

    def load_drafts(self) -> list[Draft]:
        """Load the prompts, again if another process has added some; do not modify the result."""
        import sqlite3

        file = self._file
        try:
            if file is None or not (file.exists() or file.with_suffix(_TEXT_FILE_SUFFIX).exists()):
                return self._drafts
            with _open_database(file) as database:
                newest = _read_newest_id(database)
                if newest != self._newest_id:
                    entries = [*_read_prompts(database, self._directory), *self._unwritten_prompts]
                    entries.sort(key=lambda entry: entry.timestamp_ms)
                    self._drafts = [  # anybody may have written into the file
                        Draft(
                            sanitize(entry.text),
                            {number: sanitize(text) for number, text in entry.pasted.items()},
                            is_shell_command=entry.shell,
                        )
                        for entry in entries[-_MAX_PROMPTS:]
                    ]
                    self._newest_id = newest
        except (OSError, sqlite3.Error) as error:
            self._set_storage_error(error)
        return self._drafts

    def add(self, draft: Draft) -> None:
        """Add a sent prompt; the same twice in a row is stored once."""
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
        data = msgspec.json.encode(entry)
        if len(data) > _MAX_ENTRY_BYTES:
            return False
        import sqlite3

        try:
            make_private_directory(file.parent)
            with _open_database(file) as database, database:
                database.execute("BEGIN IMMEDIATE")
                nobody_else_wrote = _read_newest_id(database) == self._newest_id
                _insert_prompt(database, entry, data)
                if nobody_else_wrote:
                    self._newest_id = _read_newest_id(database)
                _drop_older_prompts(database)
        except (OSError, sqlite3.Error) as error:
            self._set_storage_error(error)
            return False
        return True

    def _set_storage_error(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self.storage_error = f"prompts are not stored in {self._file}: {reason}"


class HistoryBrowser:
    """Browses the history and back to the draft; edits on the way are kept."""

    def __init__(self, history: PromptHistory) -> None:
        self._history = history
        self._steps_back = 0
        """How many prompts back; 0 is what is being written."""
        self._edited_drafts: dict[int, Draft] = {}
        self._drafts: list[Draft] = []

    def move(self, current: Draft, steps: int) -> Draft | None:
        """Move back by so many prompts and return that one; None if there is none."""
        if self._steps_back == 0:
            self._drafts = list(self._history.load_drafts())
        at = self._steps_back + steps
        if not 0 <= at <= len(self._drafts):
            return None
        self._edited_drafts[self._steps_back] = current
        self._steps_back = at
        return self._edited_drafts[at] if at in self._edited_drafts else self._drafts[-at]


@contextmanager
def _open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database. Raises OSError or sqlite3.Error."""
    import sqlite3

    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise OSError(errno.EINVAL, "it is not a regular file")
    path.touch(_FILE_MODE)
    path.chmod(_FILE_MODE)
    opened = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None)
    with closing(opened) as database:
        database.execute("PRAGMA synchronous = OFF")  # others wait; a power cut may take prompts
        if not _is_initialized(database):
            _initialize(database, path.with_suffix(_TEXT_FILE_SUFFIX))
        yield database


def _is_initialized(database: sqlite3.Connection) -> bool:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return bool(version)


def _initialize(database: sqlite3.Connection, text_file: Path) -> None:
    database.execute("PRAGMA auto_vacuum = FULL")
    with database:
        database.execute("BEGIN IMMEDIATE")
        if _is_initialized(database):
            return
        database.execute(
            "CREATE TABLE prompts (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER, folder TEXT,"
            " entry BLOB)"
        )
        for line in (read_regular_file(text_file, 2 * _MAX_FILE_BYTES) or b"").split(b"\n"):
            if (entry := _decode_prompt(line)) is not None:
                _insert_prompt(database, entry, line)
        database.execute("PRAGMA user_version = 1")
    text_file.unlink(missing_ok=True)


def _decode_prompt(data: bytes) -> StoredPrompt | None:
    """Decode a prompt; None for an entry of another version, or an incomplete one."""
    try:
        return _prompt_decoder.decode(data)
    except msgspec.DecodeError:
        return None


def _insert_prompt(database: sqlite3.Connection, entry: StoredPrompt, data: bytes) -> None:
    values = (entry.timestamp_ms, entry.directory, data)
    database.execute("INSERT INTO prompts (at, folder, entry) VALUES (?, ?, ?)", values)


def _read_newest_id(database: sqlite3.Connection) -> int | None:
    (newest,) = database.execute("SELECT max(id) FROM prompts").fetchone()
    return newest if isinstance(newest, int) else None


def _read_prompts(database: sqlite3.Connection, directory: str) -> Iterator[StoredPrompt]:
    query = "SELECT entry FROM prompts WHERE folder = ? ORDER BY at DESC, id DESC LIMIT ?"
    rows = database.execute(query, (directory, _MAX_PROMPTS)).fetchall()
    return (entry for (data,) in reversed(rows) if (entry := _decode_prompt(data)) is not None)


def _drop_older_prompts(database: sqlite3.Connection) -> None:
    """Keep the newer half of a file that has become too large."""
    (pages,), (page_bytes,) = (
        database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
    )
    if pages * page_bytes > _MAX_FILE_BYTES:
        database.execute(
            "DELETE FROM prompts WHERE id IN (SELECT id FROM (SELECT id, sum(length(entry)) OVER"
            " (ORDER BY id DESC) AS size FROM prompts) WHERE size > ?)",
            (_MAX_FILE_BYTES // 2,),
        )


_prompt_decoder = msgspec.json.Decoder(StoredPrompt)


_MAX_SEARCH_RESULTS = 100


class HistorySearch:
    """Shown in the composer's list; the draft is unchanged until a match is accepted."""

    def __init__(self, history: PromptHistory, completion_list: CompletionList) -> None:
        self._history = history
        self._completion_list = completion_list
        self._query = ""
        self._matching_drafts: list[Draft] = []
        self.is_active = False

    def start(self) -> None:
        self.is_active = True
        self._search("")

    def cancel(self) -> None:
        if self.is_active:
            self.is_active = False
            self._completion_list.close()

    def accept(self) -> Draft | None:
        """Accept the selected prompt; None if nothing was found."""
        at = self._completion_list.cursor_index
        self.cancel()
        return self._matching_drafts[at] if self._matching_drafts else None

    def append_to_query(self, text: str) -> None:
        self._search(self._query + to_one_line(text))

    def handle_key(self, key: str, character: str | None) -> bool:
        """Handle a key that neither accepts a match nor leaves the search."""
        match key:
            case "ctrl+r" | "down" | "ctrl+n":
                self._completion_list.move_cursor(1)
            case "ctrl+s" | "up" | "ctrl+p":
                self._completion_list.move_cursor(-1)
            case "backspace" | "ctrl+h":
                self._search(self._query[:-1])
            case "ctrl+u":
                self._search("")
            case _ if character is not None and character.isprintable():
                self._search(self._query + character)
            case _:
                return False
        return True

    def _search(self, query: str) -> None:
        """Show the latest matches first, each text once."""
        self._query = query
        found: dict[str, Draft] = {}
        for draft in reversed(self._history.load_drafts()):
            if query.lower() in draft.text.lower():
                found.setdefault(draft.text, draft)
            if len(found) == _MAX_SEARCH_RESULTS:
                break
        self._matching_drafts = list(found.values())
        labels = (
            ("! " if draft.is_shell_command else "") + to_one_line(to_visible_text(draft.text), 300)
            for draft in found.values()
        )
        nothing = "" if found else " (nothing found)"
        self._completion_list.show_choices(
            [CompletionChoice(label, "", "") for label in labels],
            f"search in earlier prompts: {query}{nothing}",
        )
