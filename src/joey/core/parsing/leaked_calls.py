"""Calls that a model wrote into its text in its own format instead of making them.

Model templates differ in how a call is written, and servers that do not know a template pass the
call on as text. The formats are built from few parts: marks that only say "here are calls"
(`<tool_call>`, `[TOOL_CALLS]`, `<|python_tag|>`), and calls as JSON, as a name followed by JSON, as
elements (`<function=name>`, `<invoke name="…">`, `<arg_key>`, the tags of the XML protocol), or as
Python. Each of these is understood between any of the marks.

Calls only count at the very end of a reply: nothing may follow them. They must name available tools
and have valid arguments; unfinished ones are never completed. Without marks a call counts only if
it is the whole reply, or alone in a fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from string import whitespace
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from joey.core.messages import UnusableCall
from joey.core.parsing.call_arguments import ARGUMENT_KEYS, parse_bare_text, repair_value
from joey.core.parsing.call_names import KnownTool, ToolNames, is_markup_name
from joey.core.parsing.lenient_json import Repair, UnfinishedJsonError, read_lenient_json
from joey.core.parsing.written_calls import (
    NotACallError,
    WrittenCall,
    iter_json_calls,
    iter_python_calls,
)
from joey.core.text import compile_regex, strip_first_newline, strip_last_newline

if TYPE_CHECKING:
    from joey.core.parsing.xml_stream import XmlEvent, XmlStream


class LeakedCall(Struct, frozen=True):
    tool: KnownTool
    arguments: dict[str, Any]
    repairs: frozenset[Repair]


_NAME = r"[A-Za-z_][\w.\-]{0,80}"
_NAMESPACE = r"(?:[a-z]+:|｜DSML｜|\|DSML\|)?"
_TOKEN = (
    r"<\|[^|<>\n]{1,40}\|?>|<[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>"
    r"|<(?:end_of_turn|eos|start_function_response)>|\[e~\["
)
_WRAPPER = (
    rf"</?{_NAMESPACE}(?:longcat_|start_|end_)?"
    r"(?:tool_calls?|function_calls?|tool_uses?|tool_code|tools|invoke|action|(?i:toolcalls?))>"
)
_CALL_TAG = r"(?:invoke|function(?:_call)?|tool(?:_call|_use)?)"
_MINIMAX = r"\]<\]minimax\[>\["
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_ANALYSIS = r"<\|channel\|>analysis<\|message\|>(?:(?!<\|).)*+(?:<\|end\|>|(?=<\|start\|>))"
_MARKS_RE = compile_regex(
    rf"(?:[\s{_INVISIBLE}]|{_ANALYSIS}|{_TOKEN}|{_WRAPPER}|\[/?TOOL_CALLS?\]|\[(?:END_)?TOOL_REQUEST\]|</s>"
    r"|</answer>|[;,]"
    rf"|assistant(?=<\|)|functools(?=\s*\[)|function call(?=\s*\{{)|Action:(?=\s*```)|{_MINIMAX}"
    rf"|function<｜tool_sep｜>{_NAME}\s+(?=<))++",
    re.DOTALL,
)
OPENING = (
    rf"{_TOKEN}|{_WRAPPER}|\[TOOL_(?:CALLS?|REQUEST)\]"
    rf"|\bfunctools(?=\s*\[)|\bfunction call(?=\s*\{{)|\bAction:\s*(?=```)|{_MINIMAX}"
    rf"|<{_NAMESPACE}(?:function=|{_CALL_TAG}\s+name=)|\bcall:default_api:(?=\w+\{{)"
    r"|(?:assistant)?commentary\s+to=|(?<!commentary )\bto=functions\."
)
"""A pattern for the marks with which calls begin."""
TAG_RE = compile_regex(r"<([A-Za-z][\w.:-]{0,80})(\s[^<>]*?)?(/?)>")
FENCE_RE = compile_regex(r"(`{3,}|~{3,})[ \t]*([\w-]*)[ \t]*\r?\n")
_ELEMENT_RE = compile_regex(
    rf"<{_NAMESPACE}(?:function=|{_CALL_TAG}\s+name=)"
    rf"[\"']?(?P<name>{_NAME})[\"']?\s*(?P<empty>/?)>"
)
_ELEMENT_END_RE = compile_regex(rf"\s*(?:{_MINIMAX})?</{_NAMESPACE}{_CALL_TAG}>")
_PARAMETER_RE = compile_regex(
    rf"\s*<(?P<tag>{_NAMESPACE}param(?:eter)?)(?:=|\s+name=)[\"']?(?P<name>{_NAME})[\"']?"
    r"(?P<attributes>[^<>\n]*)>"
)
_MINIMAX_PARAMETER_RE = compile_regex(
    rf"\s*{_MINIMAX}<(?P<name>{_NAME})>(?P<value>(?:(?!{_MINIMAX}).)*+){_MINIMAX}</(?P=name)>",
    re.DOTALL,
)
_ARGUMENT_PAIR_RE = compile_regex(
    r"\s*<arg_key>\s*([^<]{1,80}?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>"
    r"(?=\s*(?:<arg_key>|</tool_call>|$))",
    re.DOTALL,
)
_ESCAPED_PAIR_RE = compile_regex(
    r"\s*,?\s*(\w+)\s*:\s*(?:(?P<mark><escape>|<\|\"\|>|<ctrl46>)(?P<text>.*?)(?P=mark)|(?P<scalar>[\w.+-]+))",
    re.DOTALL,
)
_NAMED_RE = compile_regex(
    rf"(?:assistant\s*)?(?:commentary\s*)?(?:to=|call:(?:default_api:)?|function(?=<))?(?:{_TOKEN})*"
    rf"(?P<name>{_NAME})(?::\d+)?"
    rf"(?:\s|{_TOKEN}|<tool_sep>|\[CALL_ID\]\w+|\[ARGS\]|(?:commentary|json|code)(?=[\s<{{]))*+"
    r"(?=\{|```|<arg_key>|</tool_call>)"
)
_NAME_ELEMENT_RE = compile_regex(
    rf"<(?P<tag>(?:tool_|function_)?name)>\s*(?P<name>{_NAME})\s*</(?P=tag)>\s*"
    rf"<(?P<body>{'|'.join(ARGUMENT_KEYS)})>\s*"
)
_CHILD_RE = compile_regex(
    rf"\s*<(?P<name>{_NAME})>(?P<value>.*?)</(?P=name)>"
    rf"(?=\s*(?:<{_NAME}>|</(?:{'|'.join(ARGUMENT_KEYS)}|{_CALL_TAG})>))",
    re.DOTALL,
)
_CDATA_RE = compile_regex(r"\s*<!\[CDATA\[((?:(?!\]\]>).)*+)\]\]>\s*", re.DOTALL)
_PYTHON_LIST_RE = compile_regex(rf"\[\s*{_NAME}\s*\(")
_JSON_OR_FENCE_RE = compile_regex(rf"\{{|\[\s*(?:[\[{{]|\Z)|{FENCE_RE.pattern}")
_PYTHON_CALL_RE = compile_regex(rf"{_NAME}\(")
_FENCE_END_RE = compile_regex(r"\s*`{3,}")
_SPACE_RE = compile_regex(r"\s*+")
_ATTRIBUTE_RE = compile_regex(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_WORD_RE = compile_regex(r"\w")
_SENTENCE_ENDS = (".", "!", "?", ":", "…", ">", "。", "！", "？", "：")
_CLOSING_BRACKETS = (*")]}|»”’\"'", "*/", "#}", "-}", "--%>", "~~")
_FENCES_WITH_JSON = frozenset({"", "json", "jsonc", "json5"})
_FENCES_WITH_TAGS = frozenset({"", "xml"})
_FENCES_WITH_CALLS = frozenset(
    {"tool_code", "tool_call", "tool_calls", "tool", "tool_use", "function_call", "function"}
)
CALL_FENCES = _FENCES_WITH_JSON | _FENCES_WITH_TAGS | _FENCES_WITH_CALLS


def read_calls_to_end(text: str, start: int, tools: ToolNames) -> tuple[LeakedCall, ...]:
    """Read the calls that fill `text` from a mark, a tag or a fence at `start` to its end.

    Raises NotACallError.
    """
    fence = FENCE_RE.match(text, start)
    if fence is None:
        return _read_marked_calls(text, start, tools)
    calls: list[LeakedCall] = []
    while fence is not None:
        fenced, end = read_fence(text, fence, tools)
        calls += fenced
        fence = FENCE_RE.match(text, end)
    try:
        _require_end(text, end)
    except NotACallError as error:
        error.passed_over = _build_passed_over(calls)
        raise
    return tuple(calls)


def _read_marked_calls(text: str, start: int, tools: ToolNames) -> tuple[LeakedCall, ...]:
    calls: list[LeakedCall] = []
    try:
        for written in _Reader(text, start, tools).read_to_end():
            calls.append(_resolve_call(written, tools))
    except NotACallError as error:
        if calls and error.unusable is None:
            error.passed_over = _build_passed_over(calls)
        raise
    if not calls:
        raise NotACallError
    return tuple(calls)


def _build_passed_over(calls: list[LeakedCall]) -> UnusableCall:
    tool = calls[0].tool.name
    problem = f"Text follows the call of {tool}; only calls at the end of a reply are run."
    return UnusableCall(problem, tool=tool)


def read_whole_reply(text: str, tools: ToolNames) -> tuple[LeakedCall, ...]:
    """Read the calls of a reply that is only JSON, or a list of Python calls.

    Raises NotACallError.
    """
    stripped = text.lstrip(_INVISIBLE + whitespace)
    if not stripped.startswith(("{", "[")):
        raise NotACallError
    if _PYTHON_LIST_RE.match(stripped):
        return _resolve(_Reader(stripped, 0, tools).read_to_end(), tools)
    try:
        values = read_lenient_json(stripped)
    except ValueError as error:
        raise NotACallError(is_unfinished=isinstance(error, UnfinishedJsonError)) from None
    _require_end(stripped, values.end)
    return _resolve(iter_json_calls(values.values, values.repairs, tools), tools)


def read_fence(
    text: str, fence: re.Match[str], tools: ToolNames
) -> tuple[tuple[LeakedCall, ...], int]:
    """Read the calls in a fence with no other content, and return where the text continues after
    it.

    Raises NotACallError.
    """
    reader = _Reader(text, fence.end(), tools)
    calls = _resolve(reader.read_fenced(fence[1], fence[2].lower()), tools)
    return calls, reader.pos


def skip_marks(text: str, pos: int) -> int:
    """Skip any marks that say "here are calls"."""
    marks = _MARKS_RE.match(text, pos)
    return marks.end() if marks else pos


def is_quoted_in_line(before: str, after: str) -> bool:
    """Whether a call between two texts is quoted: the sentence continues after it on the same line,
    or a bracket around it is closed there."""
    line = after.partition("\n")[0]
    rest = line[skip_marks(line, 0) :].strip()
    if rest.startswith(_CLOSING_BRACKETS):
        return True
    rest = rest.strip("*_")
    begun = before.rpartition("\n")[2].strip(" \t*_-")
    if not begun:
        return rest.lstrip()[:1].islower() or rest.startswith(("—", "–"))
    if begun.endswith(_SENTENCE_ENDS):
        return False
    return _WORD_RE.search(rest) is not None or (rest[:1] == begun[-1:] and rest[:1] in "`$")


def _require_end(text: str, pos: int) -> None:
    if skip_marks(text, pos) < len(text):
        raise NotACallError


def _resolve(written: Iterable[WrittenCall], tools: ToolNames) -> tuple[LeakedCall, ...]:
    calls = tuple(_resolve_call(call, tools) for call in written)
    if not calls:
        raise NotACallError
    return calls


def _resolve_call(written: WrittenCall, tools: ToolNames) -> LeakedCall:
    tool = tools.find(written.name)
    if tool is None or not tool.is_callable:
        raise NotACallError(f'Unknown tool "{written.name}".', unknown_tool=written.name)
    try:
        arguments = repair_value(written.arguments, tool, written.repairs)
    except ValueError as error:
        problem = f"The arguments of {tool.name} cannot be read: {error}."
        raise NotACallError(problem, tool=tool.name) from None
    if (found := tool.find_problem(arguments.values)) is not None:
        raise NotACallError(found, tool=tool.name)
    repairs = arguments.repairs | {Repair.CALL_IN_TEXT}
    if written.name != tool.name:
        repairs |= {Repair.TOOL_NAME}
    return LeakedCall(tool, arguments.values, repairs)


class _Reader:
    """Reads consecutive written calls, as long as there is nothing else."""

    def __init__(self, text: str, pos: int, tools: ToolNames) -> None:
        self._text = text
        self._tools = tools
        self._start = pos
        self.pos = pos

    def read_to_end(self) -> Iterator[WrittenCall]:
        self._skip(_MARKS_RE)
        while self.pos < len(self._text):
            yield from self._read_calls()
            self._skip(_MARKS_RE)

    def read_fenced(self, marker: str, info: str) -> Iterator[WrittenCall]:
        end = rf"{re.escape(marker[0])}{{{len(marker)},}}[ \t]*(?:\r?\n\s*|\Z|(?=<))"
        closing = re.compile(rf"\s*{end}")
        if info in _FENCES_WITH_CALLS and (calls := self._read_python_fence(re.compile(end))):
            yield from calls
            return
        self._skip(_SPACE_RE)
        if FENCE_RE.match(self._text, self.pos):
            raise NotACallError
        is_json = self._text.startswith(("{", "["), self.pos)
        if info not in (_FENCES_WITH_JSON if is_json else CALL_FENCES) | _FENCES_WITH_CALLS:
            raise NotACallError
        self._skip(_MARKS_RE)
        while self.pos < len(self._text) and not closing.match(self._text, self.pos):
            yield from self._read_calls()
            self._skip(_MARKS_RE)
        if not closing.match(self._text, self.pos) and info not in _FENCES_WITH_CALLS:
            raise NotACallError
        self._skip(closing)

    def _read_python_fence(self, closing: re.Pattern[str]) -> list[WrittenCall]:
        end = closing.search(self._text, self.pos)
        try:
            calls = list(iter_python_calls(self._text[self.pos : end.start() if end else None]))
        except NotACallError:
            return []
        self.pos = end.end() if end else len(self._text)
        return calls

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if match := pattern.match(self._text, self.pos):
            self.pos = match.end()

    def _read_calls(self) -> Iterator[WrittenCall]:
        text, pos = self._text, self.pos
        if _PYTHON_LIST_RE.match(text, pos):
            self.pos = text.rfind("]", pos) + 1 or len(text)
            yield from iter_python_calls(text[pos : self.pos])
        elif _PYTHON_CALL_RE.match(text, pos):
            self.pos = text.rfind(")", pos) + 1 or len(text)
            yield from iter_python_calls(text[pos : self.pos])
        elif _JSON_OR_FENCE_RE.match(text, pos):
            values, repairs = self._read_json()
            yield from iter_json_calls(values, repairs, self._tools)
        elif element := _ELEMENT_RE.match(text, pos):
            yield self._read_element(element)
        elif pos > self._start and (element := _NAME_ELEMENT_RE.match(text, pos)):
            yield self._read_name_element(element)
        elif tag := TAG_RE.match(text, pos):
            yield self._read_tagged(tag)
        elif named := _NAMED_RE.match(text, pos):
            yield self._read_named(named)
        else:
            raise NotACallError

    def _read_json(self) -> tuple[tuple[Any, ...], frozenset[Repair]]:
        """Read the values at the current position, possibly in a fence."""
        fence = FENCE_RE.match(self._text, self.pos)
        try:
            values = read_lenient_json(self._text, fence.end() if fence else self.pos)
        except ValueError as error:
            problem = f"The JSON of the call cannot be read: {error}."
            is_unfinished = isinstance(error, UnfinishedJsonError)
            raise NotACallError(problem, is_unfinished=is_unfinished) from None
        self.pos = values.end
        if fence:
            self._skip(_FENCE_END_RE)
        return values.values, values.repairs

    def _read_named(self, named: re.Match[str]) -> WrittenCall:
        """Read a name followed by its arguments."""
        name, self.pos = named["name"], named.end()
        if self._text.startswith("{", self.pos) and named[0].startswith("call:"):
            return WrittenCall(name, self._read_escaped_pairs())
        if self._text.startswith(("{", "```"), self.pos):
            values, repairs = self._read_json()
            return WrittenCall(name, values[0] if len(values) == 1 else None, repairs)
        arguments: dict[str, Any] = {}
        while pair := _ARGUMENT_PAIR_RE.match(self._text, self.pos):
            if "<arg_key>" in pair[2]:
                raise _build_unfinished_error(name)
            arguments[pair[1]] = _strip_newlines(pair[2])
            self.pos = pair.end()
        self._skip(_SPACE_RE)
        if self._text.startswith("<arg_key>", self.pos):
            raise _build_unfinished_error(name)
        return WrittenCall(name, arguments)

    def _read_escaped_pairs(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        self.pos += 1
        while pair := _ESCAPED_PAIR_RE.match(self._text, self.pos):
            scalar = pair["scalar"]
            arguments[pair[1]] = pair["text"] if scalar is None else _decode_scalar(scalar)
            self.pos = pair.end()
        if not self._text.startswith("}", self.pos):
            raise NotACallError(is_unfinished=True)
        self.pos += 1
        return arguments

    def _read_element(self, element: re.Match[str]) -> WrittenCall:
        """`<function=name>` or `<invoke name="name">`, with parameters or JSON inside."""
        name, self.pos = element["name"], element.end()
        if element["empty"]:
            return WrittenCall(name)
        arguments: dict[str, Any] = {}
        repairs: frozenset[Repair] = frozenset()
        self._skip(_SPACE_RE)
        if self._text.startswith("{", self.pos):
            values, repairs = self._read_json()
            arguments = values[0]
        while parameter := _PARAMETER_RE.match(self._text, self.pos):
            arguments[parameter["name"]] = self._read_parameter(parameter, name)
        while parameter := _MINIMAX_PARAMETER_RE.match(self._text, self.pos):
            arguments[parameter["name"]] = _strip_newlines(parameter["value"])
            self.pos = parameter.end()
        while child := _CHILD_RE.match(self._text, self.pos):
            if self._text.count(f"</{child['name']}>", child.start()) > 1:
                raise _build_unfinished_error(name)
            arguments[child["name"]] = _strip_newlines(child["value"])
            self.pos = child.end()
        closing = _ELEMENT_END_RE.match(self._text, self.pos)
        if closing is None:
            is_in_value = self._text.startswith("]<]", self.pos)
            raise _build_unfinished_error(name, is_unfinished=is_in_value)
        self.pos = closing.end()
        return WrittenCall(name, arguments, repairs)

    def _read_name_element(self, element: re.Match[str]) -> WrittenCall:
        """Read `<name>name</name>` followed by an element with JSON or parameters inside."""
        name, self.pos = element["name"], element.end()
        arguments: dict[str, Any] = {}
        repairs: frozenset[Repair] = frozenset()
        if self._text.startswith("{", self.pos):
            values, repairs = self._read_json()
            arguments = values[0]
        while child := _CHILD_RE.match(self._text, self.pos):
            arguments[child["name"]] = _strip_newlines(child["value"])
            self.pos = child.end()
        self._skip(_SPACE_RE)
        if not self._text.startswith(closing := f"</{element['body']}>", self.pos):
            raise _build_unfinished_error(name)
        self.pos += len(closing)
        return WrittenCall(name, arguments, repairs)

    def _read_parameter(self, parameter: re.Match[str], tool: str) -> Any:
        """Read a value, which may quote its closing tag: it ends where a parameter or the end
        follows. One that opens more parameters than it closes is unclosed."""
        tag = parameter["tag"]
        opening, closing, space = f"<{tag}", f"</{tag}>", re.escape(tag.partition("param")[0])
        following = rf"(?=\s*(?:{re.escape(opening)}[=\s]|</{space}(?:function|invoke|tool)))"
        end = re.compile(re.escape(closing) + following).search(self._text, parameter.end())
        if end is None:
            raise _build_unfinished_error(tool)
        value = self._text[parameter.end() : end.start()]
        if value.count(opening) > value.count(closing):
            raise _build_unfinished_error(tool)
        self.pos = end.end()
        if cdata := _CDATA_RE.fullmatch(value):
            return cdata[1]
        stripped = _strip_newlines(value)
        return _decode_scalar(stripped) if 'string="false"' in parameter["attributes"] else stripped

    def _read_tagged(self, tag: re.Match[str]) -> WrittenCall:
        """Read a call in tags of the XML protocol, possibly under another name or with
        attributes."""
        name = tag[1]
        tool = self._tools.find(name)
        if name not in self._tools.by_name and is_markup_name(name):
            raise NotACallError
        if tool is None:
            child = TAG_RE.match(self._text[tag.end() :].lstrip())
            is_meant = child is not None and self._tools.is_parameter(child[1])
            raise NotACallError(f'Unknown tool "{name}".' if is_meant else "", unknown_tool=name)
        attributes = {
            key: double or single for key, double, single in _ATTRIBUTE_RE.findall(tag[2] or "")
        }
        if tag[3]:
            self.pos = tag.end()
            return WrittenCall(name, attributes)
        from joey.core.parsing.xml_stream import XmlCallEnded, XmlStream  # on demand

        opening = f"<{name}>"
        for event in self._stream_xml(XmlStream({name: tool.parameters}), opening, tag.end()):
            if isinstance(event, XmlCallEnded):
                if event.unclosed_tag or event.reasoning_parameter:
                    raise _build_unfinished_error(
                        name, is_unfinished=event.unclosed_tag not in (None, name)
                    )
                self.pos = tag.end() + event.end_offset - len(opening)
                bare = parse_bare_text(event.bare_text, tool) if event.bare_text else {}
                arguments = {**bare, **attributes, **event.input}
                return WrittenCall(name, arguments)
        raise _build_unfinished_error(name, is_unfinished=False)

    def _stream_xml(self, stream: XmlStream, opening: str, start: int) -> Iterator[XmlEvent]:
        """Stream in growing pieces, so that not much more is read than the call needs."""
        yield from stream.feed(opening)
        length = 64
        while start < len(self._text):
            yield from stream.feed(self._text[start : start + length])
            start, length = start + length, length * 2
        yield from stream.close()


def _decode_scalar(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except ValueError:
        return text


def _build_unfinished_error(name: str, *, is_unfinished: bool = True) -> NotACallError:
    return NotACallError(
        f"The call of {name} is not complete.", tool=name, is_unfinished=is_unfinished
    )


def _strip_newlines(value: str) -> str:
    return strip_last_newline(strip_first_newline(value))
