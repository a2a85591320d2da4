"""Lockstep comparison of two syntax trees that differ in the names of members and local variables.

Which class an attribute belongs to is not known here: for an attribute, a keyword or a name in a
pattern it is enough that some member or parameter has been renamed like this. That all uses of a
member were renamed together is what mypy checks. Names that are defined in the tree (parameters,
local variables, members in the body of their class) must have exactly the new name that is listed
for them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Renames:
    """New names by qualified old name."""

    modules: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    locals: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pairs: dict[str, set[str]] = defaultdict(set)
        for old, new in self._rows():
            pairs[old.replace(":", ".").rpartition(".")[2]].add(new.rpartition(".")[2])
        object.__setattr__(self, "pairs", pairs)

    pairs: Mapping[str, set[str]] = field(init=False)
    """New names by bare old name."""

    def __bool__(self) -> bool:
        return bool(self.members or self.keys or self.locals)

    def _rows(self) -> Iterator[tuple[str, str]]:
        for table in (self.names, self.members, self.keys, self.locals):
            yield from table.items()

    def old_name(self, new: str) -> str:
        """The old dotted name of a definition in a module."""
        for old, now in self.names.items():
            if now == new:
                return old
        module, _, name = new.rpartition(".")
        for old, now in self.modules.items():
            if now == module:
                return f"{old}.{name}"
        return new

    def is_listed(self, old: str, new: str) -> bool:
        return old == new or new in self.pairs.get(old, ())

    def member(self, scope: str, name: str) -> str:
        """The new name of a member of the class `scope`."""
        dotted = f"{scope}.{name}"
        return self.members.get(dotted, self.keys.get(dotted, name))

    def local(self, scopes: Sequence[str], name: str) -> set[str]:
        """The new names that a name may have in nested functions, the innermost last."""
        found = {self.locals.get(f"{scope}:{name}", name) for scope in scopes}
        return found or {name}


def without_docstrings(statement: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statement without strings that document it or what is defined in it."""
    node = deepcopy(statement[0])
    for each in ast.walk(node):
        body = getattr(each, "body", None)
        if isinstance(body, list):
            kept = [inner for inner in body if not _is_string(inner)]
            each.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return [node]


def _is_string(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def mismatch(old: ast.AST, new: ast.AST, name: str, renames: Renames) -> str | None:
    """The first difference that no rename accounts for; None if there is none.

    `name` is the dotted name of the definition in the new tree.
    """
    scope = renames.old_name(name)
    comparison = _Comparison(renames)
    if isinstance(old, _DEFINITIONS) and isinstance(new, _DEFINITIONS):
        comparison.definition(old, new, scope, [])
    else:
        comparison.nodes(old, new, _Scope(scope.rpartition(".")[0] + ".<module>"))
    return None if comparison.problem is None else f"{name}: {comparison.problem}"


@dataclass(frozen=True)
class _Scope:
    """Where nodes are: the innermost definition, and the functions around them."""

    qualified: str
    functions: tuple[str, ...] = ()
    is_class: bool = False

    @property
    def local_scopes(self) -> tuple[str, ...]:
        own = f"{self.qualified}.<class>" if self.is_class else self.qualified
        return (own, *self.functions)


class _Comparison:
    def __init__(self, renames: Renames) -> None:
        self.renames = renames
        self.problem: str | None = None

    def differ(self, old: object, new: object, why: str) -> None:
        if self.problem is None:
            texts = [ast.unparse(n) if isinstance(n, ast.AST) else repr(n) for n in (old, new)]
            self.problem = f"{why}: {texts[0][:200]} is now {texts[1][:200]}"

    def definition(
        self, old: ast.AST, new: ast.AST, qualified: str, functions: Sequence[str]
    ) -> None:
        """Compare two functions or classes; their own names are the caller's matter."""
        is_class = isinstance(old, ast.ClassDef)
        own = () if is_class else (qualified,)
        scope = _Scope(qualified, (*functions, *own), is_class)
        if type(old) is not type(new):
            self.differ(old, new, "another kind of definition")
            return
        for part in old._fields:
            if part != "name":
                self.value(getattr(old, part), getattr(new, part), scope)

    def value(self, old: Any, new: Any, scope: _Scope) -> None:
        if self.problem is not None:
            return
        if isinstance(old, ast.AST) and isinstance(new, ast.AST):
            self.nodes(old, new, scope)
        elif isinstance(old, list) and isinstance(new, list):
            if len(old) != len(new):
                self.differ(
                    ast.Module(old, []) if _are_statements(old) else str(old),
                    ast.Module(new, []) if _are_statements(new) else str(new),
                    "more or fewer parts",
                )
                return
            for one, other in zip(old, new, strict=True):
                self.value(one, other, scope)
        elif old != new or type(old) is not type(new):
            self.differ(old, new, "another value")

    def nodes(self, old: ast.AST, new: ast.AST, scope: _Scope) -> None:
        if self.problem is not None:
            return
        match old, new:
            case (ast.Assign(targets=[ast.Name("__slots__")]), ast.Assign()):
                self._slots(old, new)
                return
            case (ast.AnnAssign(target=ast.Name(id=was)), ast.AnnAssign()) if (
                f"{scope.qualified}.{was}" in self.renames.keys
            ):
                if not self._is_keyed(old, new, scope):
                    self.differ(old, new, "a field without its key")
                self.nodes(old.annotation, new.annotation, scope)
                return
            case (ast.Name(), ast.Name()):
                self._names(old, new, scope)
                return
            case (ast.Constant(value=str() as was), ast.Constant(value=str() as now)):
                if not self.renames.is_listed(was, now):
                    self.differ(old, new, "another string")
                return
        if type(old) is not type(new):
            self.differ(old, new, "another kind of node")
            return
        if isinstance(old, _DEFINITIONS):
            self._inner_definition(old, new, scope)
            return
        for part in old._fields:
            one, other = getattr(old, part, None), getattr(new, part, None)
            if isinstance(one, str) and isinstance(other, str):
                self._identifiers(old, new, one, other, scope)
            elif part in {"kwd_attrs", "names"} and one and other and isinstance(one[0], str):
                for was, now in zip(one, other, strict=False):
                    self._identifiers(old, new, was, now, scope)
            else:
                self.value(one, other, scope)

    def _slots(self, old: ast.Assign, new: ast.Assign) -> None:
        """Compare the names in `__slots__`, which are kept sorted."""
        was, now = ([*ast.literal_eval(each.value)] for each in (old, new))
        fits = all(any(self.renames.is_listed(one, each) for each in now) for one in was)
        if len(was) != len(now) or not fits:
            self.differ(old, new, "other slots")

    def _inner_definition(self, old: Any, new: Any, scope: _Scope) -> None:
        if scope.is_class:
            expected = {self.renames.member(scope.qualified, old.name)}
        else:
            expected = self.renames.local(scope.local_scopes, old.name)
        if new.name not in expected and not old.name.startswith("__"):
            self.differ(old.name, new.name, f"a name that is not listed in {scope.qualified}")
        self.definition(old, new, f"{scope.qualified}.{old.name}", scope.functions)

    def _names(self, old: ast.Name, new: ast.Name, scope: _Scope) -> None:
        if old.id == new.id:
            return
        if scope.is_class and isinstance(old.ctx, ast.Store):
            allowed = {self.renames.member(scope.qualified, old.id)}
        else:
            allowed = self.renames.local(scope.local_scopes, old.id)
            if scope.is_class:
                allowed.add(self.renames.member(scope.qualified, old.id))
        if new.id not in allowed:
            self.differ(old.id, new.id, f"a name that is not listed in {scope.qualified}")

    def _identifiers(self, old: ast.AST, new: ast.AST, was: str, now: str, scope: _Scope) -> None:
        if was == now:
            return
        if isinstance(old, ast.arg | ast.MatchAs | ast.MatchStar | ast.ExceptHandler):
            if now not in self.renames.local(scope.local_scopes, was):
                self.differ(was, now, f"a name that is not listed in {scope.qualified}")
        elif not self.renames.is_listed(was, now):
            self.differ(old, new, "a name that is not listed")

    def _is_keyed(self, old: ast.AnnAssign, new: ast.AnnAssign, scope: _Scope) -> bool:
        """Whether a field got a name, and keeps its key."""
        match old.target, new.target, new.value:
            case ast.Name(id=was), ast.Name(id=now), ast.Call(keywords=keywords) if (
                self.renames.keys.get(f"{scope.qualified}.{was}") == now
            ):
                rest = [each for each in keywords if each.arg != "name"]
                if len(rest) + 1 != len(keywords):
                    return False
                match old.value, rest:
                    case None, []:
                        return True
                    case ast.Call(keywords=before), _ if _dump(before) == _dump(rest):
                        return True
                    case ast.expr() as value, [ast.keyword(arg="default", value=default)]:
                        self.nodes(value, default, scope)
                        return True
        return False


def _dump(keywords: Sequence[ast.keyword]) -> list[str]:
    return [ast.dump(each) for each in keywords if each.arg != "name"]


def _are_statements(nodes: Sequence[object]) -> bool:
    return bool(nodes) and all(isinstance(node, ast.stmt) for node in nodes)
