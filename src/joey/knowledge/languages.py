"""Which files are in which language, and what counts as a definition there.

The patterns are tree-sitter queries; every node they capture is a definition.
"""

from __future__ import annotations

from pathlib import PurePath

MARKDOWN = "markdown"

_SUFFIXES = {
    "python": (".py", ".pyi"),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
    "typescript": (".ts", ".mts", ".cts"),
    "tsx": (".tsx",),
    "go": (".go",),
    "rust": (".rs",),
    "java": (".java",),
    "c": (".c", ".h"),
    "cpp": (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx"),
    "csharp": (".cs",),
    "ruby": (".rb",),
    "php": (".php",),
    "bash": (".sh", ".bash"),
    MARKDOWN: (".md", ".markdown"),
}
_LANGUAGES = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes}

_JAVASCRIPT = """
    (function_declaration) @it (generator_function_declaration) @it
    (class_declaration) @it (method_definition) @it
    (variable_declarator value: [(arrow_function) (function_expression) (class)]) @it
    (assignment_expression right: [(arrow_function) (function_expression) (class)]) @it
    (pair value: [(arrow_function) (function_expression)]) @it
    (export_statement value: [(arrow_function) (function_expression) (class) (object)]) @it
"""
_TYPESCRIPT = f"""
    {_JAVASCRIPT}
    (abstract_class_declaration) @it (interface_declaration) @it (type_alias_declaration) @it
    (enum_declaration) @it (internal_module) @it (module) @it
    (public_field_definition value: [(arrow_function) (function_expression)]) @it
"""
_C = """
    (function_definition) @it (type_definition) @it
    (struct_specifier body: (_)) @it (union_specifier body: (_)) @it
    (enum_specifier body: (_)) @it (preproc_function_def) @it
"""

QUERIES = {
    "python": "(function_definition) @it (class_definition) @it",
    "javascript": f"{_JAVASCRIPT} (field_definition value: (arrow_function)) @it",
    "typescript": _TYPESCRIPT,
    "tsx": _TYPESCRIPT,
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
    "c": _C,
    "cpp": f"{_C} (class_specifier body: (_)) @it (namespace_definition) @it",
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


def language_of(name: str) -> str | None:
    """The language that a file is in, by its name."""
    return _LANGUAGES.get(PurePath(name).suffix.lower())
