"""Text primitives: lazily compiled regexes, safe display, lines, line numbers, entities, trimming.

`compile_regex` compiles a regular expression at its first use: every run loads some two hundred of
them and uses a few dozen, and compiling them all would dominate the start-up time.

Lines end at LF only (a CR before it belongs to the line end); `str.splitlines` would also break at
form feeds and other characters that editors and compilers do not count as line ends.

Text of models, files and programs can hold bytes that move the cursor, overwrite what was shown,
set the clipboard or reverse the reading order, and so make a user approve something other than they
see. `sanitize` judges each character by itself, so text may be cut anywhere.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, AnyStr, cast

if TYPE_CHECKING:
    # The supervisor of a sandboxed command loads this module without third-party packages.
    from msgspec import ValidationError


def compile_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a lazily compiled regular expression with the methods of `re.Pattern`; errors in it
    appear at the first use."""
    return cast("re.Pattern[AnyStr]", _LazyRegex(pattern, flags))


class _LazyRegex:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[Any]:
        return re.compile(self._pattern, self._flags)

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_regex, (self._pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        """Look up a method once and cache it, so that later calls bypass this."""
        found = getattr(self._compiled, name)
        setattr(self, name, found)
        return found


_LINE_NUMBER_RE = compile_regex(r"[ \t]*(\d{1,9})[ \t]+\|(?!\|) ?")
_LINE_NUMBER_OR_BAR_RE = compile_regex(r"[ \t]*(?:\d{1,9}[ \t]+)?\|(?!\|) ?")
_ENTITY_CHARACTERS = {
    "lt": "<",
    "gt": ">",
    "quot": '"',
    "#39": "'",
    "apos": "'",
    "#91": "[",
    "#93": "]",
    "lsqb": "[",
    "rsqb": "]",
    "amp": "&",
}
_ENTITY_RE = compile_regex(f"&({'|'.join(_ENTITY_CHARACTERS)});")


def split_lines(text: str) -> list[str]:
    """Split a text into lines without their endings; a final newline does not start another
    line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if "\r" not in text:
        return lines
    return [line.removesuffix("\r") for line in lines]


def number_lines(text: str, start: int = 1) -> str:
    """Number every line (`1 | first`), numbers aligned, with a final newline; empty for an empty
    text."""
    if not text:
        return "" if start == 1 else f"{start} | \n"
    lines = split_lines(text)
    width = len(str(start + len(lines) - 1))
    return "".join([f"{number:>{width}} | {line}\n" for number, line in enumerate(lines, start)])


def has_line_numbers(text: str) -> bool:
    """Whether every line starts like a line of `number_lines`."""
    lines = split_lines(text)
    return bool(lines) and all(_LINE_NUMBER_RE.match(line) for line in lines)


def parse_first_line_number(text: str) -> int | None:
    match = _LINE_NUMBER_RE.match(text)
    return int(match[1]) if match else None


def strip_line_numbers(text: str, *, bare_bars: bool = False) -> str:
    """Strip line numbers; with `bare_bars` also a `| ` that has lost its number."""
    prefix = _LINE_NUMBER_OR_BAR_RE if bare_bars else _LINE_NUMBER_RE
    matches = [(line, prefix.match(line)) for line in text.split("\n")]
    return "\n".join([line[match.end() :] if match else line for line, match in matches])


def strip_code_fence(text: str) -> str:
    """Strip a Markdown code block that wraps the whole text."""
    stripped = text.strip()
    first, newline, rest = stripped.partition("\n")
    if not (newline and first.startswith("```") and rest.endswith("```")):
        return text
    body, newline, last = rest.rpartition("\n")
    if last.strip() != "```":
        return text
    return f"{body}\n" if newline else ""


def unescape_entities(text: str) -> str:
    """Unescape entities that some models put into text other than markup, once each."""
    return _ENTITY_RE.sub(lambda match: _ENTITY_CHARACTERS[match[1]], text)


def is_escaped_as_markup(text: str) -> bool:
    """Whether all of the text was escaped: nothing is left that markup would escape."""
    has_entities = any(entity in text for entity in ("&lt;", "&gt;", "&amp;"))
    return has_entities and not any(character in _ENTITY_RE.sub("", text) for character in "<>&")


_ESCAPE_SEQUENCE_RE = compile_regex(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links, the clipboard
    r"|[PX^_][^\x1b]*\x1b\\"  # strings for the terminal itself
    r"|[ -/]+[0-~]"  # character sets
    r"|(?![\[\]PX^_])[0-~])"
)
_DELETED_CODE_POINTS = (
    code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
)
_BIDI_CODE_POINTS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_INVISIBLE_CODE_POINTS = (0x200B, 0x2060, 0xFEFF, *range(0xE0000, 0xE0080))
BIDI_AND_INVISIBLE_CODE_POINTS = (*_BIDI_CODE_POINTS, *_INVISIBLE_CODE_POINTS)
_SANITIZE_TABLE: dict[int, str | None] = {
    **dict.fromkeys(_DELETED_CODE_POINTS),
    **{code: f"<U+{code:04X}>" for code in BIDI_AND_INVISIBLE_CODE_POINTS},
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
}


def sanitize(text: str) -> str:
    """Remove control sequences; characters that reorder or hide text are shown by name."""
    if text.isprintable():
        return text
    if "\x1b" in text:
        text = _ESCAPE_SEQUENCE_RE.sub("", text)
    return text.translate(_SANITIZE_TABLE)


_HIDDEN_CHARACTER_RE = compile_regex(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0000-\U000e0fff]"
    # They join letters and emoji; after ASCII they can only mislead.
    r"|(?<=[\x00-\x7f])[\u200c\u200d\ufe00-\ufe0f]"
)


def reveal(text: str) -> str:
    """Escape `text` for a decision: show also what `sanitize` would remove (`<U+001B>`), and
    invisible characters. A command or change that a user approves must not hide anything."""
    if text.isascii() and text.isprintable():
        return text
    return sanitize(_HIDDEN_CHARACTER_RE.sub(lambda found: f"<U+{ord(found[0]):04X}>", text))


def to_one_line(text: str, width: int = 100, *, cut_at_space: bool = False) -> str:
    """Return the sanitized text on one line, cut with an ellipsis at `width`."""
    line = " ".join(sanitize(text[: 4 * width]).split())
    if len(line) <= width:
        return line
    cut = line[: width - 1]
    if cut_at_space and (head := cut.rpartition(" ")[0]):
        return f"{head} …"
    return f"{cut}…"


_ERROR_PATH_RE = compile_regex(r" - at `\$\.?(.*)`$")


def split_validation_error(error: ValidationError) -> tuple[str, str]:
    """Split msgspec's error text into the path of the invalid value and the problem."""
    text = str(error)
    path = _ERROR_PATH_RE.search(text)
    return (path[1], text[: path.start()]) if path else ("", text)


class StreamTrimmer:
    """Trims white space around streamed text; or, if verbatim, one newline at each end."""

    def __init__(self, verbatim: bool) -> None:
        self._is_verbatim = verbatim
        self._has_begun = False
        self._pending_space: list[str] = []

    def feed(self, text: str) -> str:
        """Add text and return what is certain now: white space counts only if something follows
        it."""
        stripped = text.rstrip()
        if not stripped:
            self._pending_space.append(text)
            return ""
        certain = "".join(self._pending_space) + stripped
        self._pending_space = [text[len(stripped) :]]
        if self._has_begun:
            return certain
        self._has_begun = True
        return strip_first_newline(certain) if self._is_verbatim else certain.lstrip()

    def close(self) -> str:
        if not self._is_verbatim:
            return ""
        rest = "".join(self._pending_space)
        return strip_last_newline(rest if self._has_begun else strip_first_newline(rest))


def strip_first_newline(text: str) -> str:
    return text[2:] if text.startswith("\r\n") else text.removeprefix("\n")


def strip_last_newline(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
