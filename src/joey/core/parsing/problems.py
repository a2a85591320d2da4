"""How a reply ended, and what the model is told about a call that cannot be executed (D14)."""

from __future__ import annotations

from msgspec import Struct

_LIMITS = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
)

NO_NAME = (
    "The call does not name a tool, so it was not executed. Call again, with the tool's name and "
    "its arguments."
)


class ReplyEnd(Struct, frozen=True):
    complete: bool
    """False when the stream broke or was cancelled."""
    stop_reason: str | None = None

    @property
    def cut_off(self) -> str | None:
        """What is wrong with a call that the end of the reply left open; None if nothing is."""
        if not self.complete:
            return (
                "The reply was interrupted before this call was complete, so it was not executed."
            )
        if self.stop_reason is None or self.stop_reason.lower() not in _LIMITS:
            return None
        return (
            f"The reply was cut off by the output limit (stop reason `{self.stop_reason}`) before "
            "this call was complete, so it was not executed. Call again with shorter arguments, "
            "or split the work into several smaller calls."
        )


def malformed_arguments(name: str, error: ValueError) -> str:
    return (
        f"The arguments of {name} are not valid JSON: {error}. The call was not executed. "
        "Call again with complete, well-formed arguments."
    )


def unclosed_tag(tool: str, tag: str) -> str:
    return (
        f"The call of {tool} was not executed: its <{tag}> was never closed with </{tag}>. "
        "Write the whole call again, with all its closing tags."
    )


def thought_inside(tool: str, parameter: str) -> str:
    return (
        f"The call of {tool} was not executed: its <{parameter}> closes a section of reasoning and "
        f"then opens <{parameter}> again, so it seems to have been begun in the reasoning and "
        "given up there. Write the whole call again, after the reasoning."
    )


def quoted_end(tool: str, body: str) -> str:
    return (
        f"The call of {tool} was not executed: the text behind it closes </{body}> and </{tool}> "
        f"once more, so its <{body}> seems to quote these two tags itself and to be cut short. "
        "Write it again without quoting them, and put what is missing in with another tool."
    )
