"""Bash command lines parsed with tree-sitter.

The tree may only contain the listed kinds of nodes, and the text between nodes only blanks and line
breaks. So syntax that the grammar skips, repairs or does not know never counts as a plain word. The
parser cannot be interrupted: long lines are not passed to it, and a result that took too much
processor time is not used (load from other programs does not matter).
"""

from __future__ import annotations

import time
from string import ascii_letters, digits
from typing import TYPE_CHECKING

from joey.core.permissions.shell import CommandChain
from joey.core.text import compile_regex
from joey.ports.execution import ShellGrammar

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LINE_BYTES = 65_536
PARSE_TIMEOUT_S = 0.05
_COMPOUND_NODE_TYPES = frozenset(
    {
        *("program", "list", "pipeline", "redirected_statement"),
        *("command", "command_name", "concatenation"),
    }
)
_LITERAL_NODE_TYPES = frozenset({"word", "number", "raw_string", "string"})
_CHAIN_OPERATORS = frozenset({"&&", "||", "|"})
_COMMAND_TERMINATORS = frozenset({";", "\n"})
_SAFE_UNQUOTED_BYTES = frozenset(b"-./:,+@%=^~_" + (ascii_letters + digits).encode()).union(
    range(0x80, 0x100)
)
"""Letters beyond ASCII are left to the other reader, which knows them."""
_SAFE_BYTES_WITHIN_WORDS = frozenset(b"#!")
"""They have a meaning at the beginning of a word only."""
_ESCAPABLE_UNQUOTED = tuple(bytes([byte]) for byte in b" '\"\\$`&|;()<>*?[]{}!#~.")
_HARMLESS_REDIRECTIONS = frozenset(
    stream + target
    for stream in (b">", b"1>", b"2>")
    for target in (b"&1", b"&2", b"/dev/null", b" /dev/null")
)
_ESCAPABLE_IN_DOUBLE_QUOTES = frozenset(b'"\\$`')
_LINE_CONTINUATION_RE = compile_regex(rb"(?<=[ \t])\\\n")
_BYTES_KEEPING_DOLLAR_LITERAL = frozenset(b'" |)')


class BashGrammar:
    """Loads its parser for the first line; `parse_timeout_s` is in processor time."""

    def __init__(self, parse_timeout_s: float = PARSE_TIMEOUT_S) -> None:
        self._parse_timeout_s = parse_timeout_s
        self._parser: Parser | None = None

    def parse_chain(self, line: str) -> CommandChain | None:
        source = line.encode()
        if len(source) > MAX_LINE_BYTES or b"\0" in source:
            return None
        if self._parser is None:
            import tree_sitter_bash
            from tree_sitter import Language, Parser

            self._parser = Parser(Language(tree_sitter_bash.language()))
        start = time.thread_time()
        root = self._parser.parse(source).root_node
        if root.has_error:
            return None
        chain = _CommandChainReader(source).read_chain(root)
        return chain if time.thread_time() - start <= self._parse_timeout_s else None


class _UnsupportedSyntaxError(Exception):
    """The tree contains something other than plain words."""


class _CommandChainReader:
    """Reads the leaves of a tree in text order."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._position = 0
        self._commands: list[tuple[str, tuple[str, ...]]] = []
        self._words: list[str] = []
        self._preceding_operator = ""

    def read_chain(self, root: Node) -> CommandChain | None:
        waiting = [root]
        try:
            while waiting:
                node = waiting.pop()
                if node.is_missing or node.is_error or node.is_extra:
                    raise _UnsupportedSyntaxError
                if node.type in _COMPOUND_NODE_TYPES:
                    waiting += reversed(node.children)
                else:
                    self._consume_node(node)
            self._skip_blanks_to(len(self._source))
            self._finish_command()
        except (_UnsupportedSyntaxError, UnicodeDecodeError):
            return None
        return tuple(self._commands)

    def _consume_node(self, node: Node) -> None:
        is_separate = self._skip_blanks_to(node.start_byte)
        self._position = node.end_byte
        if node.type in _LITERAL_NODE_TYPES:
            text = _decode_literal(self._source[node.start_byte : node.end_byte], node)
            if self._words and not is_separate:
                self._words[-1] += text
            else:
                self._words.append(text)
        elif node.type == "file_redirect":
            if self._source[node.start_byte : node.end_byte] not in _HARMLESS_REDIRECTIONS:
                raise _UnsupportedSyntaxError
        elif node.type in _CHAIN_OPERATORS:
            self._finish_command()
            self._preceding_operator = node.type
        elif node.type in _COMMAND_TERMINATORS:
            self._finish_command()
        else:
            raise _UnsupportedSyntaxError

    def _skip_blanks_to(self, end: int) -> bool:
        """Skip blanks; return whether there were any. A line break outside of nodes ends a command
        too."""
        gap = _LINE_CONTINUATION_RE.sub(b" ", self._source[self._position : end])
        if gap.strip(b" \t\n"):
            raise _UnsupportedSyntaxError
        if b"\n" in gap:
            self._finish_command()
        return bool(gap)

    def _finish_command(self) -> None:
        if self._words:
            self._commands.append((self._preceding_operator, tuple(self._words)))
            self._words, self._preceding_operator = [], ""


def _decode_literal(source: bytes, node: Node) -> str:
    match node.type:
        case "raw_string":
            return source[1:-1].decode()
        case "string":
            return _decode_double_quoted(source)
    return "!" if source == b"!" else _decode_unquoted(source)


def _decode_unquoted(source: bytes) -> str:
    result = bytearray()
    inner = iter(range(len(source)))
    for at in inner:
        byte = source[at]
        if byte == ord("\\") and source[at + 1 :].startswith(_ESCAPABLE_UNQUOTED):
            byte = source[next(inner)]
        elif byte not in _SAFE_UNQUOTED_BYTES and not (at and byte in _SAFE_BYTES_WITHIN_WORDS):
            raise _UnsupportedSyntaxError
        result.append(byte)
    return result.decode()


def _decode_double_quoted(source: bytes) -> str:
    """Decode a double-quoted text, which must not contain anything that bash would expand."""
    result = bytearray()
    inner = iter(range(1, len(source) - 1))
    for at in inner:
        byte = source[at]
        if byte == ord("\\"):
            after = source[at + 1]
            if after == ord("\n"):
                raise _UnsupportedSyntaxError
            if after in _ESCAPABLE_IN_DOUBLE_QUOTES:
                next(inner)
                byte = after
        elif byte == ord("$"):
            if source[at + 1] not in _BYTES_KEEPING_DOLLAR_LITERAL:
                raise _UnsupportedSyntaxError
        elif byte in b'`"':
            raise _UnsupportedSyntaxError
        result.append(byte)
    return result.decode()


_protocol_check: type[ShellGrammar] = BashGrammar
