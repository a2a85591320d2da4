"""Worker that finds the definitions in source code.

`python -m joey.content.outline_worker LANGUAGE` reads the code on stdin and prints a list of first,
last and heading lines, as JSON. Every node that the tree-sitter queries capture is a definition,
with the decorators before it. Grammars are C code that some texts crash or block for minutes: the
engine never imports this module.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left
from importlib import import_module

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from joey.content.worker_main import serve_request

_JAVASCRIPT_QUERY = """
    (function_declaration) @it (generator_function_declaration) @it
    (class_declaration) @it (method_definition) @it
    (variable_declarator value: [(arrow_function) (function_expression) (class)]) @it
    (assignment_expression right: [(arrow_function) (function_expression) (class)]) @it
    (pair value: [(arrow_function) (function_expression)]) @it
    (export_statement value: [(arrow_function) (function_expression) (class) (object)]) @it
"""
_TYPESCRIPT_QUERY = f"""
    {_JAVASCRIPT_QUERY}
    (abstract_class_declaration) @it (interface_declaration) @it (type_alias_declaration) @it
    (enum_declaration) @it (internal_module) @it (module) @it
    (public_field_definition value: [(arrow_function) (function_expression)]) @it
"""
_C_QUERY = """
    (function_definition) @it (type_definition) @it
    (struct_specifier body: (_)) @it (union_specifier body: (_)) @it
    (enum_specifier body: (_)) @it (preproc_function_def) @it
"""

DEFINITION_QUERIES = {
    "python": "(function_definition) @it (class_definition) @it",
    "javascript": f"{_JAVASCRIPT_QUERY} (field_definition value: (arrow_function)) @it",
    "typescript": _TYPESCRIPT_QUERY,
    "tsx": _TYPESCRIPT_QUERY,
    "go": "(function_declaration) @it (method_declaration) @it (type_declaration) @it",
    "rust": """
        (function_item) @it (struct_item) @it (enum_item) @it (union_item) @it (trait_item) @it
        (impl_item) @it (mod_item body: (_)) @it (macro_definition) @it
    """,
    "java": """
        (class_declaration) @it (interface_declaration) @it (enum_declaration) @it
        (record_declaration) @it (annotation_type_declaration) @it
        (method_declaration) @it (constructor_declaration) @it
    """,
    "c": _C_QUERY,
    "cpp": f"{_C_QUERY} (class_specifier body: (_)) @it (namespace_definition) @it",
    "csharp": """
        (namespace_declaration) @it (class_declaration) @it (struct_declaration) @it
        (record_declaration) @it (interface_declaration) @it (enum_declaration) @it
        (method_declaration) @it (constructor_declaration) @it (property_declaration) @it
        (local_function_statement) @it
    """,
    "ruby": "(class) @it (module) @it (method) @it (singleton_method) @it",
    "php": """
        (function_definition) @it (class_declaration) @it (interface_declaration) @it
        (trait_declaration) @it (enum_declaration) @it (method_declaration) @it
    """,
    "bash": "(function_definition) @it",
}


_MAX_DEFINITIONS = 5_000
_GRAMMARS = {
    "typescript": ("typescript", "language_typescript"),
    "tsx": ("typescript", "language_tsx"),
    "csharp": ("c_sharp", "language"),
    "php": ("php", "language_php"),
}
"""Packages, without their prefix, and functions in them that are not named like the others."""


_DECORATOR_TYPES = frozenset(
    {
        *("decorator", "annotation", "marker_annotation"),
        *("attribute_item", "attribute_list", "attribute_declaration"),
    }
)
"""Nodes inside of a definition or before it, by language."""
_WRAPPER_TYPES = frozenset({"decorated_definition", "export_statement"})
"""Nodes around a definition that may hold its decorators."""


def find_definition_spans(language: str, data: bytes) -> list[tuple[int, int, int]]:
    """Find the first, last and heading lines of definitions, counted from 1; of those that begin on
    one line, the longest."""
    module, function = _GRAMMARS.get(language, (language, "language"))
    grammar = Language(getattr(import_module(f"tree_sitter_{module}"), function)())
    tree = Parser(grammar).parse(data)
    captures = QueryCursor(Query(grammar, DEFINITION_QUERIES[language])).captures(tree.root_node)
    # Not from the nodes' points: reading those corrupts memory (tree-sitter 0.26.0).
    line_ends = [match.start() for match in re.finditer(b"\n", data)]
    found: dict[int, tuple[int, int]] = {}
    for node in captures.get("it", []):
        first = bisect_left(line_ends, _find_first_decorator(node).start_byte) + 1
        last = bisect_left(line_ends, max(node.start_byte, node.end_byte - 1)) + 1
        heading = bisect_left(line_ends, _find_heading(node).start_byte) + 1
        found[first] = max((last, heading), found.get(first, (0, 0)))
    return sorted((first, *rest) for first, rest in found.items())[:_MAX_DEFINITIONS]


def _find_first_decorator(node: Node) -> Node:
    """Find the first decorator directly before a definition, or the definition itself."""
    first = node
    if node.parent is not None and node.parent.type in _WRAPPER_TYPES:
        first = next((each for each in node.parent.children if _is_decorator(each)), first)
        node = node.parent
    while (above := node.prev_sibling) is not None and _is_decorator(above):
        first = node = above
    return first


def _find_heading(node: Node) -> Node:
    """Find the first part of a definition that is not a decorator."""
    for child in node.children:
        if child.type == "modifiers":
            part = next((each for each in child.children if not _is_decorator(each)), None)
            if part is not None:
                return part
        elif not _is_decorator(child):
            return child
    return node


def _is_decorator(node: Node) -> bool:
    return node.type in _DECORATOR_TYPES


if __name__ == "__main__":
    serve_request(lambda data: json.dumps(find_definition_spans(sys.argv[1], data)).encode())
