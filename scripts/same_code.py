"""Comparison of two source trees that differ only in where code lives and what it is called.

    python -m scripts.same_code OLD NEW MAP

OLD and NEW are commits or directories that contain `src/joey`. MAP is a table (tab-separated, with
a heading) of `old`, `new` and `kind`:

- `module`: all definitions of module `old` live in module `new` now.
- `name`: the definition `old` (module and name) lives in another module than the rest of its old
  module, or has another name.
- `text`: `old` is a module, `!` and a part of string constants in it, `new` replaces that part.
- `string`: the same for a whole string constant.
- `code`: `old` is a module, `!` and an expression in it, `new` the expression in its place (a path
  relative to the module's file).
- `shim`: module `old` only re-exported names and is gone; its importers use the originals.
- `member`: `old` is a method, attribute or field (module, class and name), `new` its name now.
- `key`: the same for a field whose stored key stays: it has `field(name=…)` now.
- `local`: `old` is a function, `:` and a parameter or local variable, `new` its name now.

Every name is replaced by the module and name of its definition, on both sides, and on the old side
by where MAP says it lives now. Then each definition and each other statement of a module must occur
on both sides with the same syntax tree, and statements that do more than define a name in the same
order. Left out are positions, comments, docstrings of modules, and import statements (what they
bind is compared where it is used).

With members or locals in MAP, trees are compared node by node (`scripts.renames`), and all
docstrings are left out, because they follow the names that they mention.
"""

from __future__ import annotations

import ast
import builtins
import csv
import difflib
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from scripts.renames import Renames, mismatch, without_docstrings

Tree = Mapping[str, ast.Module]
"""Syntax trees by dotted module name."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class Moves:
    """The map: what became of modules, names and texts."""

    modules: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    strings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shims: frozenset[str] = frozenset()
    renames: Renames = field(default_factory=Renames)

    def module(self, old: str) -> str:
        return self.modules.get(old, old)

    def name(self, module: str, name: str) -> str:
        qualified = f"{module}.{name}"
        return self.names.get(qualified, f"{self.module(module)}.{name}")


def read_moves(lines: Iterable[str]) -> Moves:
    """Parse a map.

    Raises:
        ValueError: a row has an unknown kind, or an old name occurs twice.
    """
    kinds = ("module", "name", "text", "string", "code", "shim", "member", "key", "local")
    tables: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        table = tables.get(row["kind"])
        if table is None or row["old"] in table:
            raise ValueError(f"bad row: {row}")
        table[row["old"]] = row["new"]
    return Moves(
        tables["module"],
        tables["name"],
        _by_module(tables["text"]),
        _by_module(tables["string"]),
        _by_module(tables["code"]),
        frozenset(tables["shim"]),
        Renames(*(tables[kind] for kind in ("module", "name", "member", "key", "local"))),
    )


def _by_module(table: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for key, new in table.items():
        module, _, old = key.partition("!")
        found[module][old] = new
    return found


def read_tree(place: str) -> dict[str, ast.Module]:
    """Parse all modules of `src/joey` in a directory or a commit."""
    if Path(place).is_dir():
        source = Path(place) / "src"
        files = {path.relative_to(source): path.read_bytes() for path in source.rglob("*.py")}
    else:
        command = ["git", "archive", place, "src"]
        archive = subprocess.run(command, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            files = {
                Path(member.name).relative_to("src"): file.read()
                for member in tar
                if member.name.endswith(".py") and (file := tar.extractfile(member))
            }
    return {_module_name(path): ast.parse(text) for path, text in sorted(files.items())}


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Module:
    """One module: its definitions, what it imports, and its statements."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.imports: dict[str, str] = {}
        """Dotted origins of the names that import statements bind."""
        self.definitions: set[str] = set()
        self.exports: set[str] = set()
        self.statements: list[list[ast.stmt]] = []
        """Each with the string that documents it."""
        for index, node in enumerate(tree.body):
            if index == 0 and _is_string(node):
                continue
            self._add(node)

    def _add(self, node: ast.stmt) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self.imports |= imported(node)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]):
                imports = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
                for each in imports:
                    self._add(each)
                if rest := [each for each in body if each not in imports]:
                    self._add_statement(ast.If(node.test, rest, []))
            case ast.Expr() if _is_string(node) and self.statements:
                self.statements[-1].append(node)
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as listed):
                self.exports |= {ast.literal_eval(each) for each in listed.elts}
            case _:
                self._add_statement(node)

    def _add_statement(self, node: ast.stmt) -> None:
        self.statements.append([node])
        self.definitions |= set(bound_by(node))


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that an import statement binds, with their dotted origins."""
    if isinstance(node, ast.ImportFrom):
        return {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return {
        each.asname or each.name.split(".")[0]: each.name
        if each.asname
        else each.name.split(".")[0]
        for each in node.names
    }


def _is_string(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


class Package:
    """All modules of a tree, and where a dotted name is defined."""

    def __init__(self, tree: Tree) -> None:
        self.modules = {name: Module(name, parsed) for name, parsed in tree.items()}

    def origin(self, dotted: str) -> tuple[str, str | None]:
        """The module and the name of a definition; the name is None for a module itself."""
        for _ in range(20):
            if dotted in self.modules:
                return dotted, None
            module, _, name = dotted.rpartition(".")
            if module not in self.modules:
                return module, name
            found = self.modules[module]
            if name in found.definitions or name not in found.imports:
                return module, name
            dotted = found.imports[name]
        raise ValueError(f"{dotted} is imported in a circle")


def bound_by(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module or class binds there."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import() | ast.ImportFrom():
            yield from imported(node)
        case _:
            yield from _local_bindings([node])


def _local_bindings(body: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements bind in their own scope, nested scopes left out."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from (
                    each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr)
                )
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
        yield from _local_bindings(ast.iter_child_nodes(node))


class Scope:
    """What names mean inside a function, class or comprehension; the module is outside of all."""

    def __init__(self, local: set[str], imports: dict[str, str], *, is_class: bool = False) -> None:
        self.local = local
        self.imports = imports
        self.is_class = is_class


def function_scope(parameters: ast.arguments, body: list[ast.AST]) -> Scope:
    """The scope of a function or lambda."""
    listed = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
    listed += [each for each in (parameters.vararg, parameters.kwarg) if each is not None]
    local = {each.arg for each in listed} | set(_local_bindings(body))
    imports: dict[str, str] = {}
    for each in _own_nodes(body):
        match each:
            case ast.Import() | ast.ImportFrom():
                imports |= imported(each)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                local -= set(names)
    return Scope(local, imports)


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            yield from _own_nodes(ast.iter_child_nodes(node))


class ScopedTransformer(ast.NodeTransformer):
    """A transformer that knows what each name refers to."""

    def __init__(self, package: Package, module: Module) -> None:
        self.package = package
        self.module = module
        self.scopes: list[Scope] = []

    def meaning(self, name: str, *, is_read: bool = True) -> str | None:
        """The dotted name of what a name refers to; None for local names and builtins."""
        known = name in self.module.definitions or name in self.module.imports
        for depth, scope in enumerate(reversed(self.scopes)):
            # The right side of `NAME = NAME` in a class is the module's.
            if scope.is_class and (depth or (is_read and known)):
                continue
            if name in scope.imports:
                return scope.imports[name]
            if name in scope.local:
                return None
        if name in self.module.definitions:
            return f"{self.module.name}.{name}"
        if name in self.module.imports:
            return self.module.imports[name]
        return None if name in _BUILTINS or name.startswith("__") else f"?.{name}"

    def _within(self, scope: Scope, nodes: Iterable[ast.AST]) -> list[ast.AST]:
        self.scopes.append(scope)
        try:
            return [new for node in nodes if (new := self.visit(node)) is not None]
        finally:
            self.scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.args = self.visit(node.args)
        if node.returns is not None:
            node.returns = self.visit(node.returns)
        scope = function_scope(node.args, [*node.body])
        body = self._within(scope, node.body)
        node.body = [each for each in body if isinstance(each, ast.stmt)] or [ast.Pass()]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self.visit(node.args)
        scope = function_scope(node.args, [node.body])
        (body,) = self._within(scope, [node.body])
        assert isinstance(body, ast.expr)
        node.body = body
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.bases = [self.visit(each) for each in node.bases]
        node.keywords = [self.visit(each) for each in node.keywords]
        scope = Scope(set(_local_bindings(node.body)), {}, is_class=True)
        body = self._within(scope, node.body)
        node.body = [each for each in body if isinstance(each, ast.stmt)] or [ast.Pass()]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, _COMPREHENSIONS):
            targets = [each for part in node.generators for each in ast.walk(part.target)]
            local = {each.id for each in targets if isinstance(each, ast.Name)}
            self.scopes.append(Scope(local, {}))
            try:
                return super().generic_visit(node)
            finally:
                self.scopes.pop()
        return super().generic_visit(node)


class _Normalizer(ScopedTransformer):
    """Replaces every name by where it is defined, after the moves."""

    def __init__(self, package: Package, module: Module, moves: Moves) -> None:
        super().__init__(package, module)
        self.moves = moves
        self.codes: Mapping[str, str] = moves.codes.get(module.name, {})

    def moved(self, dotted: str) -> str:
        module, name = self.package.origin(dotted)
        if name is None:
            return f"{self.moves.module(module)}:"
        return self.moves.name(module, name)

    def visit(self, node: ast.AST) -> Any:
        if self.codes and isinstance(node, ast.expr):
            new = self.codes.get(ast.unparse(node))
            if new is not None:
                codes, self.codes = self.codes, {}
                try:
                    return super().visit(ast.parse(new, mode="eval").body)
                finally:
                    self.codes = codes
        return super().visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        dotted = self.meaning(node.id, is_read=isinstance(node.ctx, ast.Load))
        return node if dotted is None else ast.Name(self.moved(dotted), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        value = self.visit(node.value)
        if isinstance(value, ast.Name) and value.id.endswith(":"):
            # A module's attribute. The old module's name finds it, also if the module was split.
            dotted = self._dotted(node)
            if dotted is not None:
                return ast.Name(self.moved(dotted), node.ctx)
        node.value = value
        return node

    def _dotted(self, node: ast.expr) -> str | None:
        match node:
            case ast.Name(id=name):
                return self.meaning(name)
            case ast.Attribute(value=value, attr=name):
                outer = self._dotted(value)
                return None if outer is None else f"{outer}.{name}"
            case _:
                return None

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, str):
            return node
        strings = self.moves.strings.get(self.module.name, {})
        text = self._dotted_text(node.value) or strings.get(node.value, node.value)
        for old, new in self.moves.texts.get(self.module.name, {}).items():
            text = text.replace(old, new)
        return ast.Constant(text)

    def _dotted_text(self, text: str) -> str | None:
        if text in self.package.modules:
            return self.moves.module(text)
        module, _, name = text.rpartition(".")
        return self.moves.name(module, name) if module in self.package.modules else None

    def visit_Global(self, node: ast.Global) -> ast.AST:
        names = [self.moves.name(self.module.name, name).rpartition(".")[2] for name in node.names]
        return ast.Global(names)

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None


@dataclass
class Contents:
    """What a tree holds, in terms of the new tree."""

    definitions: dict[str, dict[str, list[ast.AST]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Code and its nodes by dotted name."""
    origins: dict[str, dict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """The same, by dotted name and old module."""
    statements: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Code that defines nothing, by module."""
    nodes: dict[str, list[ast.AST]] = field(default_factory=dict)
    """The nodes of each piece of code."""
    orders: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """Code whose order matters, by old and new module."""
    exports: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def contents(tree: Tree, moves: Moves, *, with_docstrings: bool = True) -> Contents:
    """What a tree holds after the moves."""
    package, found = Package(tree), Contents()
    for module in package.modules.values():
        normalizer = _Normalizer(package, module, moves)
        for name in module.exports if module.name not in moves.shims else ():
            if name in module.definitions:
                home, _, exported = moves.name(module.name, name).rpartition(".")
            else:
                home = moves.module(module.name)
                origin = normalizer.moved(module.imports.get(name, name))
                exported = origin.rpartition(".")[2]
            found.exports[home].add(exported)
        ordered = _names_in_order(module)
        for statement in module.statements:
            if module.name in moves.shims and not _is_listed(module, statement[0], moves):
                raise ValueError(f"{module.name} holds more than imports")
            code = statement if with_docstrings else without_docstrings(statement)
            _add_statement(found, normalizer, code, ordered)
    return found


def _is_listed(module: Module, node: ast.stmt, moves: Moves) -> bool:
    names = [f"{module.name}.{name}" for name in bound_by(node)]
    return bool(names) and all(name in moves.names for name in names)


def _names_in_order(module: Module) -> set[str]:
    """Names that are bound more than once, or used by statements that bind nothing."""
    counts = Counter(name for each in module.statements for name in bound_by(each[0]))
    names = {name for name, count in counts.items() if count > 1}
    for statement, *_ in module.statements:
        if not [*bound_by(statement)]:
            names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return names


def _add_statement(
    found: Contents, normalizer: _Normalizer, statement: list[ast.stmt], ordered: set[str]
) -> None:
    module, moves = normalizer.module.name, normalizer.moves
    names = [*bound_by(statement[0])]
    homes = [moves.name(module, name) for name in names]
    home = homes[0].rpartition(".")[0] if homes else moves.module(module)
    nodes = [normalizer.visit(deepcopy(each)) for each in statement]
    if isinstance(statement[0], (*_FUNCTIONS, ast.ClassDef)):
        nodes[0].name = homes[0].rpartition(".")[2]
    code = "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in nodes)
    found.nodes[code] = nodes
    for dotted in homes:
        found.definitions[dotted][code] = nodes
        found.origins[dotted][module].add(code)
    if not homes:
        found.statements[home].append(code)
    if not homes or ordered & {*names}:
        found.orders[module, home].append(code)


def differences(old: Tree, new: Tree, moves: Moves) -> Iterator[str]:
    """What differs between the trees, besides the moves; nothing if they hold the same code."""
    with_docstrings = not moves.renames
    before = contents(old, moves, with_docstrings=with_docstrings)
    after = contents(new, Moves(), with_docstrings=with_docstrings)
    renamed: dict[str, str] = {}
    for name in sorted({*before.definitions, *after.definitions}):
        was, now = before.definitions.get(name), after.definitions.get(name)
        if was is None or now is None or was.keys() != now.keys():
            yield from _difference(name, was, now, moves.renames, renamed)
    for name, origins in sorted(before.origins.items()):
        if len({frozenset(codes) for codes in origins.values()}) > 1:
            yield f"{name} stands for different definitions of {', '.join(sorted(origins))}"
    for module in sorted({*before.statements, *after.statements}):
        one, other = before.statements.get(module, []), after.statements.get(module, [])
        if {*one} != {*other}:
            was, now = (
                {each: before.nodes[each] for each in one},
                {each: after.nodes[each] for each in other},
            )
            yield from _difference(f"{module} (statements)", was, now, moves.renames, renamed)
        elif sorted(one) != sorted(other):
            yield f"{module}: a statement occurs more or less often"
    for module in sorted({*before.exports, *after.exports}):
        one_all, other_all = before.exports.get(module), after.exports.get(module)
        if one_all != other_all:
            yield f"{module}.__all__: {sorted(one_all or ())} is now {sorted(other_all or ())}"
    for (module, home), codes in sorted(before.orders.items()):
        order = {code: index for index, code in enumerate(_whole_order(after, home))}
        codes_now = [renamed.get(code, code) for code in codes]
        places = [order[code] for code in codes_now if code in order]
        if places != sorted(places):
            yield f"{module}: its statements have another order in {home}"
    for name in sorted({*moves.names}):
        if moves.names[name] not in after.definitions:
            yield f"the map moves {name} to {moves.names[name]}, which does not exist"


def _whole_order(found: Contents, home: str) -> list[str]:
    return [code for (_, new), codes in found.orders.items() if new == home for code in codes]


def _difference(
    name: str,
    one: Mapping[str, list[ast.AST]] | None,
    other: Mapping[str, list[ast.AST]] | None,
    renames: Renames,
    renamed: dict[str, str],
) -> Iterator[str]:
    """What differs between pieces of code besides renames; `renamed` learns which are the same."""
    if one is None or other is None:
        yield f"{name} is {'new' if one is None else 'gone'}"
        return
    if renames and len(one) == len(other):
        problems = []
        for (old_code, old_nodes), (new_code, new_nodes) in zip(
            one.items(), other.items(), strict=True
        ):
            problems += [
                problem
                for old, new in zip(old_nodes, new_nodes, strict=False)
                if (problem := mismatch(old, new, name, renames)) is not None
            ]
            renamed[old_code] = new_code
        yield from problems
        return
    lines = difflib.unified_diff(
        "\n\n".join(sorted(one)).splitlines(),
        "\n\n".join(sorted(other)).splitlines(),
        f"old {name}",
        f"new {name}",
        lineterm="",
    )
    yield "\n".join(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print("usage: python -m scripts.same_code OLD NEW MAP", file=sys.stderr)
        return 2
    old, new, table = arguments
    with Path(table).open(encoding="utf-8", newline="") as lines:
        moves = read_moves(lines)
    found = [*differences(read_tree(old), read_tree(new), moves)]
    print(*found, f"{len(found)} differences" if found else "the same code", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
