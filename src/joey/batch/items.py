"""Items of a batch: lists read from JSONL, JSON, CSV or a directory, checked, and templates."""

from __future__ import annotations

import csv
import io
import random
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from joey.core.settings import Limits
from joey.core.text import compile_regex
from joey.errors import UserError

_FORBIDDEN_IN_ID_RE = compile_regex(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_MAX_ID_BYTES = 150
_MAX_SHOWN_ID_CHARS = 100
_PROMPT_SUFFIXES = (".txt", ".md", ".prompt")
MAX_PRIORITY = 99_999


class ListError(UserError):
    """The list of items, or a template, cannot be used; nothing was started."""


class WorkspaceKind(StrEnum):
    CLONE = "clone"
    WORKTREE = "worktree"
    COPY = "copy"
    DIR = "dir"


class ListFormat(StrEnum):
    AUTO = "auto"
    SWEBENCH = "swebench"


class Item(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One task of a list, as it is stored and sent to workers."""

    id: str
    prompt: str = ""
    repo: str | None = None
    ref: str | None = None
    group: str | None = None
    setup: str | None = None
    check: str | None = None
    limits: Limits = Limits()
    priority: int = 0
    """Items with smaller numbers run first."""
    data: dict[str, Any] = field(default_factory=dict)
    """All other fields of the list entry, for templates."""

    @property
    def digest(self) -> str:
        """Changes when any field of the item does."""
        return sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


class ItemDefaults(Struct, frozen=True, kw_only=True):
    """Defaults for fields that items leave out."""

    template: str | None = None
    repo: str | None = None
    ref: str | None = None
    setup: str | None = None
    check: str | None = None


class Selection(Struct, frozen=True, kw_only=True):
    """Which items of a list are taken, and in which order."""

    pattern: str | None = None
    first: int | None = None
    last: int | None = None
    seed: int | None = None
    limit: int | None = None

    def apply(self, items: Sequence[Item]) -> list[Item]:
        """Raises ListError."""
        try:
            pattern = None if self.pattern is None else re.compile(self.pattern)
        except re.error as error:
            raise ListError(f"--filter {self.pattern!r} is not a valid pattern: {error}") from error
        kept = [item for item in items if pattern is None or pattern.search(item.id)]
        if not kept:
            raise ListError(f"--filter {self.pattern!r} matches the id of no item.")
        kept = kept[self.first : self.last]
        if self.seed is not None:
            random.Random(self.seed).shuffle(kept)
        return kept[: self.limit]


def load_items(
    source: Path, defaults: ItemDefaults, list_format: ListFormat = ListFormat.AUTO
) -> list[Item]:
    """All items of a list, with their prompts filled in. Raises ListError."""
    rows = list(_read_rows(source))
    if not rows:
        raise ListError(f"{source} has no items.")
    if list_format is ListFormat.SWEBENCH:
        rows = [(where, _convert_swebench(row)) for where, row in rows]
    return build_items(rows, defaults)


def build_items(
    rows: Iterable[tuple[str, Mapping[str, Any]]], defaults: ItemDefaults
) -> list[Item]:
    """Build items from rows; errors name the place of each row. Raises ListError."""
    items: dict[str, Item] = {}
    folded: dict[str, str] = {}
    for where, row in rows:
        item = _build_item(where, row, defaults)
        if item.id in items:
            raise ListError(f"{where}: two items have the id {item.id!r}. Ids must be unique.")
        plain = unicodedata.normalize("NFC", item.id).casefold()
        other = folded.setdefault(plain, item.id)
        if other != item.id:
            raise ListError(
                f"{where}: the ids {other!r} and {item.id!r} differ only in case or in how accents"
                " are encoded, so their files could not be told apart everywhere. Rename one."
            )
        items[item.id] = item
    return list(items.values())


def _build_item(where: str, row: Mapping[str, Any], defaults: ItemDefaults) -> Item:
    names = {name for name in Item.__struct_encode_fields__ if name != "data"}
    known = {name: value for name, value in row.items() if name in names and value is not None}
    extra = row.get("data")
    data = {**(extra if isinstance(extra, dict) else {})}
    data |= {name: value for name, value in row.items() if name not in {*names, "data"}}
    for name in ("repo", "ref", "setup", "check"):
        if name not in known and (default := getattr(defaults, name)) is not None:
            known[name] = default
    if isinstance(repo := known.get("repo"), str):
        known["repo"] = _resolve_repo(repo)
    if isinstance(known.get("id"), int):
        known["id"] = str(known["id"])
    try:
        item = msgspec.convert({**known, "data": data}, Item, strict=False)
    except msgspec.ValidationError as error:
        raise ListError(f"{where}: {error}") from error
    _check_id(where, item.id)
    _check_limits(where, known.get("limits"))
    if defaults.template is not None:
        item = msgspec.structs.replace(item, prompt=_fill_template(where, item, defaults.template))
    if not item.prompt.strip():
        raise ListError(f"{where}: item {item.id!r} has no prompt. Add one, or use --prompt.")
    if not 0 <= item.priority <= MAX_PRIORITY:
        raise ListError(f"{where}: priority must be 0 to {MAX_PRIORITY}.")
    return item


def _resolve_repo(repo: str) -> str:
    """Resolve a local directory to an absolute path; an address stays unchanged."""
    if "://" in repo:
        return repo
    try:
        path = Path(repo).expanduser()
        return str(path.absolute()) if path.exists() else repo
    except (OSError, RuntimeError, ValueError):  # too long, or an unknown user's home
        return repo


def _check_id(where: str, item_id: str) -> None:
    """Reject an id that is not a valid file name on every system, or starts with a dot."""
    is_usable = (
        item_id
        and item_id.isprintable()
        and _FORBIDDEN_IN_ID_RE.search(item_id) is None
        and item_id[0] not in ".-"
        and item_id[-1] != "."
        and item_id.strip() == item_id
        and len(item_id.encode("utf-8", "replace")) <= _MAX_ID_BYTES
    )
    if not is_usable:
        shown = item_id if len(item_id) <= _MAX_SHOWN_ID_CHARS else f"{item_id[:40]}…"
        raise ListError(
            f"{where}: the id {shown!r} cannot name a file. Use letters, digits, '.', '_' and '-',"
            f" at most {_MAX_ID_BYTES} bytes, beginning with a letter or a digit."
        )


def _check_limits(where: str, limits: Any) -> None:
    """Reject unknown limits, so that a misspelt one is not ignored."""
    names = Limits.__struct_encode_fields__
    unknown = [name for name in limits or () if name not in names]
    if unknown:
        raise ListError(
            f"{where}: {unknown[0]!r} is not a limit. The limits are {', '.join(sorted(names))}."
        )


def _fill_template(where: str, item: Item, template: str) -> str:
    """`{name}` is a field of the item, `{{` a brace. Raises ListError."""
    fields = {**item.data, **msgspec.to_builtins(item)}
    pieces: list[str] = []
    try:
        for text, name, _, _ in string.Formatter().parse(template):
            pieces.append(text)
            if name is None:
                continue
            if (value := fields.get(name)) is None:
                raise ListError(
                    f"{where}: the template uses {{{name}}}, which item {item.id!r} does not have."
                )
            pieces.append(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    except ValueError as error:
        raise ListError(
            f"The template is not valid: {error}. Write {{{{ for a single brace."
        ) from error
    return "".join(pieces)


def _read_rows(source: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        if source.is_dir():
            yield from _read_directory(source)
            return
        text = source.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ListError(f"{source} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ListError(f"{source} is not UTF-8 text.") from error
    if source.suffix.lower() == ".csv":
        yield from _read_csv(source, text)
    elif text.lstrip().startswith("["):
        yield from _read_json(source, text)
    else:
        yield from _read_jsonl(source, text)


def _read_directory(source: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in sorted(source.iterdir()):
        if path.suffix.lower() in _PROMPT_SUFFIXES and path.is_file():
            try:
                text = path.read_bytes().decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise ListError(f"{path} is not UTF-8 text.") from error
            yield str(path), {"id": path.stem, "prompt": text}


def _read_csv(source: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = reader.fieldnames or ()
        if twice := [name for name in names if names.count(name) > 1]:
            raise ListError(f"{source}: the header has {twice[0]!r} twice.")
        for row in reader:
            where = f"{source}, line {reader.line_num}"
            if None in row or None in row.values():
                raise ListError(f"{where}: the row does not have as many fields as the header.")
            yield where, {name: value for name, value in row.items() if value != ""}
    except csv.Error as error:
        raise ListError(f"{source}, line {reader.line_num}: {error}") from error


def _read_json(source: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        rows = msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.DecodeError as error:
        raise ListError(f"{source} is not a JSON array of objects: {error}.") from error
    yield from ((f"{source}, item {n}", row) for n, row in enumerate(rows, 1))


def _read_jsonl(source: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        try:
            yield where, msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ListError(f"{where} is not a JSON object: {error}.") from error


def _convert_swebench(row: Mapping[str, Any]) -> dict[str, Any]:
    converted = {
        "id": row.get("instance_id"),
        "prompt": row.get("problem_statement"),
        "ref": row.get("base_commit"),
    }
    if isinstance(repo := row.get("repo"), str):
        is_name = "://" not in repo and not Path(repo).exists()
        converted["repo"] = f"https://github.com/{repo}" if is_name else repo
        converted["group"] = repo
    return {**row, **{name: value for name, value in converted.items() if value is not None}}
