"""No code decides by the text of an error, a reason or a diff: errors have fields, decisions are
values, and text is made from them at the edge."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.harness.paths import SOURCE

ALLOWED = {
    "cli.arguments:_format_flag_suggestion": "argparse names unknown flags in its message alone",
    "config.config_keys:_explain_invalid_value": "msgspec names a constraint in its message",
    "config.json_documents:_explain_wrong_value": "msgspec quotes a wrong value, maybe a secret",
    "content.browser:perform": "Chromium names a refused connection in its message alone",
    "content.syntax_checker:_check_toml": "tomllib gives the line in its message alone",
    "core.parsing.json_stream:close": "msgspec says only in its message that JSON ended",
    "core.parsing.written_calls:iter_python_calls": "ast says in words that code is cut off",
    "core.text:split_validation_error": "msgspec gives path and problem as one text",
    "core.wire.frames:_format_validation_error": "msgspec names a missing field in its message",
    "providers.errors:_build_provider_error": "services state the window in words",
    "providers.errors:_classify_failure": "services say in words that a model takes no tools",
    "providers.errors:_format_error_message": "services say in words which model is missing",
    "providers.http_connection:_is_refused": "asyncio joins the errors of several addresses",
    "workspace.checkpoints.scan:_find_failing_path": "git names the file in its output alone",
    "workspace.git.process:describe_failure": "git has one exit code for most failures",
    "workspace.search:grep": "ripgrep says in words that an expression needs PCRE2",
}
"""Functions that read the text of another program or library, and why. Text of joey's own is read
nowhere."""

TEXTS = {"reason", "diff", "problem", "warning", "strerror", "stderr", "error_text"}
"""Names and attributes of texts for people and models."""
ERROR_TEXTS = {"args", "message", "msg", "text"}
"""Attributes of errors that are, too."""
TEXT_PARAMETERS = TEXTS | {"error", "message"}
STILL_TEXT = {"lower", "casefold", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix"}
STILL_TEXT |= {"replace", "decode", "format"}
DECIDES = {"startswith", "endswith", "find", "rfind", "index", "partition", "rpartition"}
MATCHES = {"match", "fullmatch", "search", "findall", "finditer"}


class TextBranches(ast.NodeVisitor):
    """The lines of one function that decide by such a text."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.lines: set[int] = set()
        self._errors: set[str] = set()
        self._texts = set(TEXTS)
        for each in (*function.args.args, *function.args.kwonlyargs):
            kind = "" if each.annotation is None else ast.unparse(each.annotation)
            if "Error" in kind or "Exception" in kind:
                self._errors.add(each.arg)
            elif each.arg in TEXT_PARAMETERS and kind in ("str", "str | None", "bytes"):
                self._texts.add(each.arg)
        for _ in range(2):  # in a loop, names are used above their assignment
            for statement in function.body:
                self.visit(statement)

    def _is_text(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(name):
                return name in self._texts
            case ast.Attribute(ast.Name(owner), name):
                return name in TEXTS or (owner in self._errors and name in ERROR_TEXTS)
            case ast.Attribute(_, name):
                return name in TEXTS
            case ast.Call(ast.Name("str" | "repr"), [ast.Name(name)]):
                return name in self._errors | self._texts
            case ast.Call(ast.Attribute(inner, method)):
                return method in STILL_TEXT and self._is_text(inner)
            case ast.Subscript(inner) | ast.NamedExpr(value=inner):
                return self._is_text(inner)
            case ast.BoolOp(values=values):
                return any(map(self._is_text, values))
            case ast.IfExp(body=body, orelse=other):
                return self._is_text(body) or self._is_text(other)
        return False

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._errors |= {node.name} - {None}  # type: ignore[arg-type]  # a name without None
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._is_text(node.value):
            self._texts |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        if self._is_text(node.value):
            self._texts.add(node.target.id)
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
            for each in ast.walk(pattern) if name in TEXTS else ():
                if isinstance(each, ast.MatchAs) and each.name is not None:
                    self._texts.add(each.name)
                if isinstance(each, ast.MatchValue) and _is_word(each.value):
                    self.lines.add(each.lineno)
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        patterns = (each for case in node.cases for each in ast.walk(case.pattern))
        if self._is_text(node.subject) and any(isinstance(p, ast.MatchValue) for p in patterns):
            self.lines.add(node.lineno)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
            match operator:
                case ast.Eq() | ast.NotEq():
                    decides = self._is_text(left) and _is_word(right)
                case ast.In() | ast.NotIn():
                    listed = isinstance(right, ast.Tuple | ast.Set | ast.List)
                    decides = self._is_text(right) or (self._is_text(left) and listed)
                case _:
                    decides = False
            if decides:
                self.lines.add(node.lineno)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(ast.Attribute(_, "partition"), [ast.Constant("\n")]):
                pass  # the first line, to show it
            case ast.Call(ast.Attribute(inner, method)) if method in DECIDES:
                if self._is_text(inner):
                    self.lines.add(node.lineno)
            case ast.Call(ast.Attribute(_, method), given) if method in MATCHES:
                if any(map(self._is_text, given)):
                    self.lines.add(node.lineno)
        self.generic_visit(node)


def _is_word(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str(text) | bytes(text)):
            return bool(text)
    return isinstance(node, ast.JoinedStr)


def text_branches(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions that decide by such a text, with the lines in which they do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((node.name, line) for line in sorted(TextBranches(node).lines))


def test_no_code_decides_by_the_text_of_an_error_a_reason_or_a_diff() -> None:
    found = {}
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for function, line in text_branches(ast.parse(path.read_bytes())):
            found[f"{module}:{function}"] = line
    assert {name: line for name, line in found.items() if name not in ALLOWED} == {}
    assert {name for name in ALLOWED if name not in found} == set()


@pytest.mark.parametrize(
    "code",
    [
        "try: f()\nexcept E as error:\n if str(error).startswith('There is no'): raise",
        "try: f()\nexcept E as error:\n if 'refused' in str(error): raise",
        "try: f()\nexcept E as error:\n if 'refused' in error.args[0].lower(): raise",
        "try: f()\nexcept E as error:\n text = str(error)\n if text == 'busy': raise",
        "try: f()\nexcept E as error:\n why = _RE.search(error.message)",
        "try: f()\nexcept E as error:\n match str(error):\n  case 'busy': raise",
        "if ask.reason and ask.reason.endswith(' is off'): f()",
        "why = (ask.reason or '').rpartition(': ')[2]",
        "if any(f'{each} is off' in ask.reason for each in settings): f()",
        "if ' will be moved to ' in event.diff: f()",
        "if (said := answer.stderr.strip()) in ('none', 'all'): f()",
        "match event:\n case AskOpened(reason=str(text)) if text.startswith('no'): f()",
        "match event:\n case AskOpened(reason='no rule'): f()",
        "_RE.fullmatch(part.reason)",
        "if own := [problem for problem in problems if 'left out' in problem]: f(own)",
    ],
)
def test_the_rule_finds_a_decision_by_text(code: str) -> None:
    assert list(text_branches(_function(code)))


@pytest.mark.parametrize(
    "code",
    [
        "if ask.reason is None or ask.reason == '': f()",
        "try: f()\nexcept E as error:\n print(f'failed: {error}')",
        "try: f()\nexcept E as error:\n if error.field == 'mode': raise",
        "if reason.kind is ReasonKind.NO_RULE and reason.setting == 'alwaysAllowWrite': f()",
        "if warning not in shown: shown.add(warning)",
        "try: f()\nexcept E as error:\n print(str(error).partition('\\n')[0])",
        "print(len(event.diff.split('\\n')))",
    ],
)
def test_the_rule_allows_text_to_be_shown(code: str) -> None:
    assert list(text_branches(_function(code))) == []


def _function(code: str) -> ast.Module:
    lines = "\n".join(f" {line}" for line in code.splitlines())
    return ast.parse(f"def f(a: str) -> None:\n{lines}\n")
