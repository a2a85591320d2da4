"""Which package may import which, and what a module may be."""

from __future__ import annotations

import ast
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.harness.paths import ROOT
from tests.harness.source_modules import Module, all_modules, imported_modules

ADAPTERS = ("providers", "storage", "execution", "workspace", "content", "config", "mcp")
FRONT_ENDS = ("server", "acp", "tui")
INNER = {"core", "ports", "system", "tools", "engine", *ADAPTERS}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "events": {"core"},
    "system": set(),
    "core": set(),
    "ports": {"core"},
    "tools": {"core", "ports", "system"},
    "engine": {"core", "ports", "tools"},
    **{adapter: {"core", "ports", "system", "__version__"} for adapter in ADAPTERS},
    "proxy": {"core", "ports", "system", "config", "providers", "__version__"},
    "app": INNER | {"client", "proxy", "__version__"},
    "client": {"core", "engine"},
    "presentation": {"core"},
    **{front: {"core", "client", "presentation", "system", "__version__"} for front in FRONT_ENDS},
    "batch": {"core", "ports", "system", "engine", "app", "config", "workspace", "__version__"},
    "cli": {"core", "ports", "system", "tools", "engine", "app", "client", "presentation"}
    | {*FRONT_ENDS, "batch", "proxy", "testing", "__version__"},
    "testing": {"core", "ports"},
    "__init__": {"app", "batch", "client", "core", "engine"},
    "__main__": {"cli"},
}
"""Packages of `joey`; each may also import itself and `errors`."""

MAY_IMPORT_ONE: dict[str, set[str]] = {
    **{front: {"joey.app.application"} for front in FRONT_ENDS},
    "proxy": {"joey.server.auth"},
}
"""Modules of packages that may otherwise not be imported."""

LEAKS = {
    ("acp.editor", "joey.ports.workspace"),
    ("acp.session", "joey.ports.extensions"),
    ("acp.session", "joey.ports.storage"),
    ("server.commands.task_queries", "joey.ports.storage"),
    ("server.commands.messages", "joey.engine.task"),
    ("server.commands.revisions", "joey.engine.checkpoints"),
    ("server.commands.revisions", "joey.engine.engine"),
    ("server.commands.tasks", "joey.engine.engine"),
    ("server.commands.tasks", "joey.ports.execution"),
    ("server.feed", "joey.engine.bus"),
    ("server.feed", "joey.engine.task"),
    ("server.hub", "joey.engine.engine"),
    ("server.hub", "joey.engine.task"),
    ("server.hub", "joey.ports.storage"),
}
"""Imports of front ends into `engine` and `ports`. No line is added to this list."""

LIBRARIES: dict[str, set[str]] = {
    "tools": {"rapidfuzz"},
    "config": {"yaml"},
    "mcp": {"anyio", "httpx2", "mcp", "pydantic"},
    "content": {"jsonschema", "playwright", "pypdf", "python_calamine", "referencing"}
    | {"tree_sitter", "watchfiles"}
    | {f"tree_sitter_{name}" for name in ("bash", "c", "c_sharp", "cpp", "go", "java", "php")}
    | {f"tree_sitter_{name}" for name in ("javascript", "python", "ruby", "rust", "typescript")},
    "execution": {"tree_sitter", "tree_sitter_bash"},
    "storage": {"psycopg"},
    "tui": {"rich", "textual"},
    "acp": {"acp", "pydantic"},
    "batch": {"dbos", "psycopg", "sqlalchemy"},
    "cli": {"rich"},
    "client": {"websockets"},
    "server": {"starlette", "uvicorn", "websockets"},
}
"""Third-party packages besides msgspec, which all may import."""

IMPURE = {"asyncio", "logging", "multiprocessing", "os", "random", "secrets", "select", "shutil"}
IMPURE |= {"socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"}
"""Files, network, processes, clock and chance, which `core` leaves to others."""

POINTS = {"start_point", "end_point", "included_ranges", "changed_ranges", "set_point_range"}
POINTS |= {"descendant_for_point_range", "named_descendant_for_point_range"}
POINTS |= {"set_containing_point_range", "goto_first_child_for_point"}
"""Attributes that make points in tree-sitter, whose fields corrupt memory when read (0.26.0)."""
POINTS_OF_NODES = POINTS | {"Point", "Range", "range", "edit"}
"""The same, with names that mean something else in modules without tree-sitter."""

VAGUE = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"}
MOST_MODULES = 540
LONGEST_MODULE = 700
LONGEST_FUNCTION = 60
LONG_MODULES = {
    "cli.commands.command_parsers",
    "core.events",
    "core.permissions.program_tables",
    "system.subprocess",
}
"""Modules of more than 550 lines. No line is added to this list."""
SMALL = 80
"""Lines below which a module with a single importer says why it is one, unless it is a tool, with
its description next to it."""
WHY_SEPARATE = "A separate module"

COLLECTIONS = {
    "acp.prompts": "prompts as an editor sends them, and as it gets them back from a loaded task",
    "app.options": "one builder of options for each way to open a task",
    "cli.commands.completion": "the shells' scripts, and the candidates they ask for",
    "core.history.imported": "both histories of an imported task: messages and rows",
    "core.prompts.messages_to_model": "texts for the model, each used where it is needed",
    "engine.approval": "permissions granted during a task, and the decisions that use them",
    "engine.checkpoints": "saving checkpoints and restoring files from them",
    "engine.runtime": "what a task works with, and the part of it that a tool gets",
    "tui.terminal_window": "what joey changes about the terminal's window, and its restoration",
    "workspace.listing": "file names, for the model and for the user's completion",
}
"""Modules whose parts neither use each other nor share an importer, with the reason."""


LEAST_PART = 15
"""Lines below which definitions that stand alone are no part of their own."""
UNRELATED = {"log", "__all__", "_protocol_check", "T", "TYPE_CHECKING"}
UNRELATED |= {"_FORMER_NAMES", "__getattr__"}
"""Names that modules define for themselves: a logger, a type variable, a check for mypy, what goes
with the next release."""


NAMESAKES = {
    "ExitRequested": "a message of the composer's widget, and an exception of the plain prompt",
    "GetModels": "a command of the WebSocket API, and of Roo Code's IPC",
    "ResumeTask": "a command of the WebSocket API, and of Roo Code's IPC",
    "SendMessage": "a command of the WebSocket API, and of Roo Code's IPC",
    "StartNewTask": "a command of the WebSocket API, and of Roo Code's IPC",
}
"""Public classes that share their name with one of another module, with the reason."""
MOST_NAMESAKES = 10


def modules() -> Iterator[Module]:
    """All but the `__init__` of packages."""
    return (module for module in all_modules() if not module.name.endswith("__init__"))


def imported(tree: ast.AST) -> Iterator[list[str]]:
    """Dotted names of all imports, also those for types only and inside functions."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name.split(".") for alias in node.names)
            case ast.ImportFrom(module="joey"):
                yield from (["joey", alias.name] for alias in node.names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.split(".")
            case ast.ImportFrom():
                yield ["a relative import"]


def test_every_import_is_allowed_by_the_table() -> None:
    wrong = {
        (module.name, ".".join(name))
        for module in all_modules()
        for name in imported(module.tree)
        if not _allowed(module.package, name)
    }
    assert wrong - LEAKS == set()
    assert LEAKS - wrong == set(), "no longer imported: take these lines out of LEAKS"


def _allowed(package: str, name: list[str]) -> bool:
    if name[0] != "joey":
        if package == "core" and name[0] in IMPURE:
            return False
        libraries = {"msgspec"} | LIBRARIES.get(package, set())
        return name[0] in sys.stdlib_module_names or name[0] in libraries
    target = name[1] if len(name) > 1 else "__init__"
    if ".".join(name) in MAY_IMPORT_ONE.get(package, ()):
        return True
    return target in {package, "errors"} or target in MAY_IMPORT[package]


def test_no_modules_import_each_other_in_a_circle() -> None:
    imports = {
        module.name: {*imported_modules(module.tree.body)} - {module.name}
        for module in all_modules()
    }
    while free := {name for name, targets in imports.items() if not targets & imports.keys()}:
        imports = {name: targets for name, targets in imports.items() if name not in free}
    assert imports == {}


def test_no_point_of_tree_sitter_is_read() -> None:
    found = []
    for module in all_modules():
        uses_trees = any(name[0] == "tree_sitter" for name in imported(module.tree))
        names = POINTS_OF_NODES if uses_trees else POINTS
        found += [f"{module.name}: {name}" for name in _names(module.tree) if name in names]
    assert found == []


def _names(tree: ast.Module) -> Iterator[str]:
    """Attributes, imported names, and strings, which `getattr` could be called with."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.alias(name=name) | ast.Constant(value=str(name)):
                yield name


def test_modules_are_named_after_what_they_hold() -> None:
    assert [each.name for each in all_modules() if VAGUE & {*each.path.stem.split("_")}] == []


def test_modules_are_few_and_of_a_readable_size() -> None:
    lines = [module.lines for module in modules()]
    assert len(lines) <= MOST_MODULES
    assert 130 <= statistics.median(lines) <= 300
    assert [each.name for each in modules() if each.lines > LONGEST_MODULE] == []
    assert {each.name for each in modules() if each.lines > 550} == LONG_MODULES


def test_a_module_that_runs_as_a_program_does_so_after_all_its_definitions() -> None:
    early = [
        module.name
        for module in all_modules()
        for node in module.tree.body[:-1]
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
    ]
    assert early == []


def test_functions_stay_short() -> None:
    long = [
        f"{module.name}: {node.name}"
        for module in all_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= LONGEST_FUNCTION
    ]
    assert long == []


def test_a_docstring_begins_with_one_line_that_names_what_the_module_holds() -> None:
    wrong = [
        module.name
        for module in all_modules()
        if not (first := module.docstring.partition("\n\n")[0]).endswith(".") or len(first) > 100
    ]
    assert wrong == []


def test_a_small_module_with_one_importer_says_why_it_is_one() -> None:
    importers = defaultdict(set)
    for module in all_modules():
        for target in imported_modules(ast.walk(module.tree)):
            importers[target].add(module.name)
    silent = [
        module.name
        for module in modules()
        if module.lines < SMALL
        and len(found := importers[module.name]) == 1
        and {name.rpartition(".")[0] for name in found} == {module.name.rpartition(".")[0]}
        and WHY_SEPARATE not in module.docstring
        and not module.path.with_suffix(".md").exists()
    ]
    assert silent == []


def test_tests_share_code_through_the_harness_alone() -> None:
    """Reading one test module takes none of the others."""
    modules = list((ROOT / "tests").rglob("test_*.py"))
    assert len(modules) > 400
    importing = [
        f"{path.relative_to(ROOT)} imports {'.'.join(name)}"
        for path in modules
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        if name[0] == "tests" and any(part.startswith("test_") for part in name)
    ]
    assert importing == []


def test_two_public_classes_of_one_name_have_a_reason() -> None:
    homes = defaultdict(set)
    for module in all_modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(module.name)
    assert {name for name, found in homes.items() if len(found) > 1} == {*NAMESAKES}
    assert len(NAMESAKES) <= MOST_NAMESAKES


def test_a_module_is_one_thing() -> None:
    """Its definitions use each other, or some module imports them together."""
    together = defaultdict(list)
    for module in all_modules():
        for origin, names in _imported_together(module.tree).items():
            together[origin].append(names)
    apart = {
        module.name: parts
        for module in modules()
        if len(parts := _parts(module, together[module.name])) > 1
    }
    unlisted = {name: parts for name, parts in apart.items() if name not in COLLECTIONS}
    assert unlisted == {}
    assert [name for name in COLLECTIONS if name not in apart] == []


def _imported_together(tree: ast.AST) -> dict[str, set[str]]:
    """Names by the module they are from: imported themselves, or used through the module."""
    found: dict[str, set[str]] = defaultdict(set)
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("joey."):
            origin = (node.module or "").removeprefix("joey.")
            for each in node.names:
                found[origin].add(each.name)
                aliases[each.asname or each.name] = f"{origin}.{each.name}"
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=alias), attr=name) if alias in aliases:
                found[aliases[alias]].add(name)
    return found


def _parts(module: Module, together: list[set[str]]) -> list[list[str]]:
    """The definitions of a module, in groups that have nothing to do with each other."""
    definitions: dict[str, set[str]] = {}
    lines: Counter[str] = Counter()
    for node in module.tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound = [node.name]
            case ast.Assign():
                bound = [each.id for each in node.targets if isinstance(each, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                bound = [name]
            case _:
                bound = []
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {*bound}
        for name in bound:
            definitions.setdefault(name, set()).update(used)
            lines[name] += (node.end_lineno or node.lineno) - node.lineno + 1
    groups = [{name} for name in definitions if name not in UNRELATED]
    for names in [*definitions.values(), *together]:
        linked = names - UNRELATED
        touched = [group for group in groups if group & linked]
        if len(touched) > 1:
            groups = [group for group in groups if not group & linked] + [set().union(*touched)]
    return sorted(
        sorted(group) for group in groups if sum(lines[name] for name in group) >= LEAST_PART
    )
