"""`python -m joey.knowledge.definitions LANGUAGE`: where the code on stdin defines something.

Printed are pairs of first and last lines, as JSON. Grammars are C, and there are texts that make
them crash or take minutes: this is never imported by the engine.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left

from tree_sitter import Language, Parser, Query, QueryCursor

from joey.knowledge.confinement import serve
from joey.knowledge.languages import QUERIES

_MOST = 5_000


def main(language: str) -> None:
    serve(lambda data: json.dumps(spans(language, data)).encode())


def spans(language: str, data: bytes) -> list[tuple[int, int]]:
    """First and last lines, counted from 1; of those that begin in one line, the longest."""
    grammar = Language(_grammar(language))
    tree = Parser(grammar).parse(data)
    captures = QueryCursor(Query(grammar, QUERIES[language])).captures(tree.root_node)
    # Not from the nodes' points: reading those corrupts memory (tree-sitter 0.26.0).
    line_ends = [match.start() for match in re.finditer(b"\n", data)]
    found: dict[int, int] = {}
    for node in captures.get("it", []):
        first = bisect_left(line_ends, node.start_byte) + 1
        last = bisect_left(line_ends, max(node.start_byte, node.end_byte - 1)) + 1
        found[first] = max(last, found.get(first, 0))
    return sorted(found.items())[:_MOST]


def _grammar(language: str) -> object:
    match language:
        case "python":
            import tree_sitter_python

            return tree_sitter_python.language()
        case "javascript":
            import tree_sitter_javascript

            return tree_sitter_javascript.language()
        case "typescript":
            import tree_sitter_typescript

            return tree_sitter_typescript.language_typescript()
        case "tsx":
            import tree_sitter_typescript

            return tree_sitter_typescript.language_tsx()
        case "go":
            import tree_sitter_go

            return tree_sitter_go.language()
        case "rust":
            import tree_sitter_rust

            return tree_sitter_rust.language()
        case "java":
            import tree_sitter_java

            return tree_sitter_java.language()
        case "c":
            import tree_sitter_c

            return tree_sitter_c.language()
        case "cpp":
            import tree_sitter_cpp

            return tree_sitter_cpp.language()
        case "csharp":
            import tree_sitter_c_sharp

            return tree_sitter_c_sharp.language()
        case "ruby":
            import tree_sitter_ruby

            return tree_sitter_ruby.language()
        case "php":
            import tree_sitter_php

            return tree_sitter_php.language_php()
        case _:
            import tree_sitter_bash

            return tree_sitter_bash.language()


if __name__ == "__main__":
    main(sys.argv[1])
