"""Arguments of an XML call as they stream in.

Values are trimmed, except *verbatim* ones, which lose one newline at each end, so that file content
keeps its indentation. A value that is one CDATA section is the content of that section. Every
change is also reported as JSON text, so that the arguments of an XML call grow like those of a
native call; text whose meaning is still open is reported once it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from msgspec import Struct

from joey.core.parsing.tags import (
    THINK_CLOSING_TAGS,
    THINK_OPENING_TAGS,
    TagMatcher,
    get_tag_matcher,
    has_tag_after_reasoning_end,
)
from joey.core.parsing.xml_elements import CDATA_CLOSING, CDATA_OPENING
from joey.core.text import (
    StreamTrimmer,
)

VERBATIM_PARAMETERS = frozenset(
    {"content", "file_text", "diff", "patch", "old_string", "new_string"}
)
BODY_PARAMETERS = VERBATIM_PARAMETERS | {
    *("args", "arguments", "command", "file", "follow_up", "message", "operations", "replace"),
    *("result", "search", "todos"),
}
WRAPPER_PARAMETERS = frozenset({"args", "file"})
"""They hold the parameters as elements of their own, so beside them no other tag counts."""
LEGACY_PARAMETER_NAMES: Mapping[str, frozenset[str]] = {
    "content": frozenset({"file_text", "line_count"})
}
"""Older names that models still write beside or instead of a parameter."""

THINK_TAGS_BETWEEN_PARAMETERS = THINK_CLOSING_TAGS | THINK_OPENING_TAGS
"""Reasoning may open, or turn out to have been open, between parameters."""
_MULTI_VALUE_MARKER_PARAMETER = "line_range"
"""A tool that takes line ranges takes several of everything; their values become lists."""


class _StreamedValue:
    """A parameter that is being streamed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closing_tag = f"</{name}>"
        self._trimmer = StreamTrimmer(verbatim=name in VERBATIM_PARAMETERS)
        self._pieces: list[str] = []
        self._is_plain = False
        self._is_blank = True
        self._possible_cdata_pieces: list[str] = []
        """The value so far, while it is or may be a CDATA section."""

    def feed(self, text: str) -> str:
        if self._is_plain:
            return self._append_piece(self._trimmer.feed(text))
        self._possible_cdata_pieces.append(text)
        self._is_blank = self._is_blank and not text.strip()
        if self._is_blank or self._can_be_cdata():
            return ""
        self._is_plain = True
        return self._append_piece(self._trimmer.feed(self._drain_pending()))

    def close(self) -> str:
        rest = "" if self._is_plain else self._trimmer.feed(_unwrap_cdata(self._drain_pending()))
        return self._append_piece(rest + self._trimmer.close())

    def _can_be_cdata(self) -> bool:
        if len(self._possible_cdata_pieces) > 1 and self._possible_cdata_pieces[0].startswith(
            CDATA_OPENING
        ):
            return True
        begun = "".join(self._possible_cdata_pieces).lstrip()
        if begun.startswith(CDATA_OPENING):
            self._possible_cdata_pieces = [begun]
            return True
        return CDATA_OPENING.startswith(begun)

    def _drain_pending(self) -> str:
        pending = "".join(self._possible_cdata_pieces)
        self._possible_cdata_pieces = []
        return pending

    def _append_piece(self, text: str) -> str:
        self._pieces.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._pieces) + "".join(self._possible_cdata_pieces).strip()


class _SuspendedBody(Struct, frozen=True):
    """A body after which a short parameter has begun, unless that is a quotation in the body."""

    value: _StreamedValue
    values_before: dict[str, Any]
    expected_before: frozenset[str]


class XmlCall:
    """A call that is being streamed: its content so far, and the tags that matter in it now."""

    def __init__(
        self, tool: str, parameters: frozenset[str], opening_tags: frozenset[str] = frozenset()
    ) -> None:
        """`opening_tags` begin other calls."""
        self.tool = tool
        self.closing_tag = f"</{tool}>"
        self.next_call_tags = opening_tags - {f"<{name}>" for name in parameters}
        self.next_call_offset: int | None = None
        """Where another call begins after a value, which a body may yet turn out to quote."""
        self.values_end_offset = 0
        """Where the last closing tag of a value ended; 0 before the first."""
        self.has_quoted_call = False
        """A body went on after the beginning of another call."""
        self.values: dict[str, Any] = {}
        self.current_value: _StreamedValue | None = None
        self.suspended_body: _SuspendedBody | None = None
        several = parameters if _MULTI_VALUE_MARKER_PARAMETER in parameters else frozenset()
        self._multi_value_parameters = several - WRAPPER_PARAMETERS
        self._has_json_begun = False
        self._expected_parameters = parameters.union(
            *(LEGACY_PARAMETER_NAMES.get(name, ()) for name in parameters)
        )
        self.tag_matcher = self._build_tag_matcher(*THINK_TAGS_BETWEEN_PARAMETERS)

    def open_parameter(self, name: str) -> str:
        """Open a parameter. Returns the JSON for that, like the methods below."""
        ended = self.end_value()
        if name in WRAPPER_PARAMETERS:
            self._expected_parameters = frozenset()
        elif name not in self._multi_value_parameters:
            self._expected_parameters -= {name}
        self.current_value = _StreamedValue(name)
        self.tag_matcher = get_tag_matcher(
            frozenset({self.current_value.closing_tag, *self._list_suspended_tags()})
        )
        return (
            ended
            if name in self._multi_value_parameters
            else f'{ended}{self._encode_next_name(name)}"'
        )

    def feed(self, text: str) -> str:
        return self._encode_delta(self.current_value.feed(text)) if self.current_value else ""

    def continue_body(self, text: str) -> str:
        """Continue the paused body, which was closed once more: it quotes `text`, and a call that
        begins in it."""
        self.has_quoted_call = self.has_quoted_call or self.next_call_offset is not None
        self.next_call_offset = None
        return self.feed(text)

    def pause_value(self) -> None:
        """Pause the open body at its closing tag; a later one may still prove that it continues."""
        assert self.current_value is not None
        self.tag_matcher = self._build_tag_matcher(self.current_value.closing_tag)

    def suspend_body(self) -> None:
        """Suspend the closed body while a parameter follows; the body may still prove to
        continue."""
        assert self.current_value is not None
        before, expected = dict(self.values), self._expected_parameters
        self.suspended_body = _SuspendedBody(self.current_value, before, expected)
        self.current_value = None

    def resume_body(self, text: str) -> str:
        """Resume a body that was closed once more: `text`, which seemed to follow it, belongs to
        it."""
        assert self.suspended_body is not None
        self.current_value = self.suspended_body.value
        self.values = self.suspended_body.values_before
        self._expected_parameters = self.suspended_body.expected_before
        self.suspended_body = None
        self.pause_value()
        return self.continue_body(text)

    def settle_suspended_body(self) -> str:
        """End the suspended body, because the call ends."""
        if self.suspended_body is None:
            return ""
        value, self.suspended_body = self.suspended_body.value, None
        rest = encode_basestring(value.close())[1:-1]
        self.values[value.name] = value.text
        return f'{rest}"'

    def end_value(self) -> str:
        value = self.current_value
        if value is None:
            return ""
        rest = self._encode_delta(value.close())
        if value.name not in self._multi_value_parameters:
            self.values[value.name] = value.text
            rest += '"'
        else:
            self._append_value(value.name, value.text)
        self.current_value = None
        self.tag_matcher = self._build_tag_matcher(*THINK_TAGS_BETWEEN_PARAMETERS)
        return rest

    def close(self) -> str:
        ended = self.end_value()
        for name in sorted(self._multi_value_parameters & self.values.keys()):
            value = self.values[name]
            encoded = (
                encode_basestring(value)
                if isinstance(value, str)
                else f"[{', '.join(map(encode_basestring, value))}]"
            )
            ended += f"{self._encode_next_name(name)}{encoded}"
        return f"{ended}}}" if self._has_json_begun else "{}"

    def get_partial_arguments(self) -> dict[str, Any]:
        suspended = self.suspended_body.value if self.suspended_body is not None else None
        open_values = (value for value in (suspended, self.current_value) if value is not None)
        return {**self.values, **{value.name: value.text for value in open_values}}

    def _append_value(self, name: str, text: str) -> None:
        match self.values.get(name):
            case None:
                self.values[name] = text
            case list() as texts:
                texts.append(text)
            case first:
                self.values[name] = [first, text]

    def _encode_next_name(self, name: str) -> str:
        opened = ", " if self._has_json_begun else "{"
        self._has_json_begun = True
        return f"{opened}{encode_basestring(name)}: "

    def _encode_delta(self, text: str) -> str:
        assert self.current_value is not None
        return (
            ""
            if self.current_value.name in self._multi_value_parameters
            else encode_basestring(text)[1:-1]
        )

    def is_reopened_after_reasoning(self, name: str) -> bool:
        """Whether a value closes a section of reasoning and then opens its parameter again."""
        value = self.values[name]
        texts = value if isinstance(value, list) else [value]
        return any(has_tag_after_reasoning_end(text, f"<{name}>") for text in texts)

    def _build_tag_matcher(self, *more: str) -> TagMatcher:
        return get_tag_matcher(
            frozenset(
                {
                    *(self.closing_tag, *more, *self._list_suspended_tags()),
                    *self.next_call_tags,
                    *(f"<{name}>" for name in self._expected_parameters),
                }
            )
        )

    def _list_suspended_tags(self) -> tuple[str, ...]:
        return () if self.suspended_body is None else (self.suspended_body.value.closing_tag,)


def _unwrap_cdata(text: str) -> str:
    """Return the content of a CDATA section, if the whole text is one."""
    section = text.strip()
    end = len(section) - len(CDATA_CLOSING)
    if section.startswith(CDATA_OPENING) and section.find(CDATA_CLOSING) == end >= len(
        CDATA_OPENING
    ):
        return section[len(CDATA_OPENING) : end]
    return text
