"""Phrases for the user: failures, errors, command ends, retries, condensing, restored files."""

from __future__ import annotations

import re

import msgspec

from joey.core.events import ContextCondensed, ContextTruncated, RetryCountdown, ToolFinished
from joey.core.history.ui import Row
from joey.core.task_types import CallEnding
from joey.errors import FailureCode, ProviderFailureKind, decode_provider_failure

FAILURE_TEXTS: dict[str, str] = {
    FailureCode.REPEATED_FAILURES: "stopped: the model kept making mistakes",
    FailureCode.RESUME_DECLINED: "stopped: the task was not resumed",
    FailureCode.INVALID_RESULT: "stopped: the model gave no result of the form that was asked for",
    FailureCode.TURN_LIMIT: "stopped: the limit of turns is reached",
    FailureCode.CALL_LIMIT: "stopped: the limit of tool calls is reached",
    FailureCode.COST_LIMIT: "stopped: the budget is used up",
    FailureCode.TOKEN_LIMIT: "stopped: the limit of tokens is reached",
    FailureCode.TIME_LIMIT: "stopped: the time is up",
    FailureCode.CONTEXT_LIMIT: "failed: this is more than the model's window holds",
    FailureCode.WINDOW_TOO_SMALL: "stopped: the window of the model is too small",
    FailureCode.INTERNAL_ERROR: "failed: a bug in joey",
    FailureCode.SUBTASK_NOT_OPENED: "failed",
}
_PROVIDER_FAILURE_TEXTS = {
    ProviderFailureKind.AUTH: "failed: the provider does not accept the key",
    ProviderFailureKind.NOT_FOUND: "failed: the provider does not know the model or the address",
    ProviderFailureKind.INVALID_REQUEST: "failed: the provider refused the request",
    ProviderFailureKind.CONTEXT_OVERFLOW: "failed: the conversation is longer than the model "
    "can take",
    ProviderFailureKind.TOOLS_REFUSED: "failed: the model takes no tools; use --protocol xml",
    ProviderFailureKind.OUT_OF_MEMORY: "failed: the server has too little memory for the model",
    ProviderFailureKind.QUOTA: "failed: the account has no credit left",
    ProviderFailureKind.RATE_LIMIT: "failed: the provider gets too many requests; try again",
    ProviderFailureKind.OVERLOAD: "failed: the provider is having problems; try again",
    ProviderFailureKind.NETWORK: "failed: the provider was not reached; try again",
    ProviderFailureKind.MALFORMED_STREAM: "failed: the provider's answer was damaged; try again",
    ProviderFailureKind.EMPTY_REPLY: "failed: the model's replies were empty; try again",
}

RESTORED_FILE_CHANGE_TEXTS = {"removed": "deleted", "changed": "restored", "added": "created"}
"""By how a file differs afterwards."""
UNRESTORABLE_REASON_TEXTS = {
    "ignored": "ignored by git",
    "outside": "outside of the workspace",
    "large": "too large to be kept, or not readable",
}


_ERROR_CODE_TEXTS = {
    "MODEL_NO_TOOLS_USED": "the model used no tool, and is reminded to",
    "MODEL_NO_ASSISTANT_MESSAGES": "the model's reply was empty",
}
_ERROR_TAGS_RE = re.compile(r"\A\[ERROR\] |</?(?:error_details|error|feedback|retry_timer)>")
_MODEL_ONLY_DETAILS_RE = re.compile(
    r"\n+(?:Search Content|Best Match Found|What is there|Recovery suggestions):\n"
)
"""Where an error goes on with what only the model needs to put it right."""
_SENTENCE_RE = re.compile(r".*?[.!?](?=\s+[A-Z]|$)", re.DOTALL)
_ENDING_TEXTS = {
    CallEnding.RUNNING: "left running in the background",
    CallEnding.SKIPPED: "skipped",
}
_HTTP_STATUS_PREFIX_RE = re.compile(r"\A\d{3}\n")
_PROPER_NAME_RE = re.compile(
    r"(?:I|Anthropic|Git|Ollama|Python|Roo)\b|\w(?:\S*[A-Z\d]|\S*[-_./:]\w)"
)
"""Words that keep their capital wherever they stand."""


def describe_failure(code: str) -> str:
    """Describe how a run ended whose task failed with this code."""
    if (failure := decode_provider_failure(code)) is not None:
        return _PROVIDER_FAILURE_TEXTS[failure]
    return FAILURE_TEXTS.get(code, "failed")


def describe_condense(event: ContextCondensed | ContextTruncated) -> str:
    """Describe the effect of condensing on the model's window."""
    tokens = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
    if isinstance(event, ContextTruncated):
        return f"the model's window was full: its oldest messages are hidden ({tokens})"
    cost = f", ${event.cost:.2f}" if event.cost else ""
    return f"the conversation is condensed ({tokens}{cost})"


def lower_first(text: str) -> str:
    """Convert the beginning of a text to lower case for use after `joey: `, unless it is a name."""
    return text if _PROPER_NAME_RE.match(text) else text[:1].lower() + text[1:]


def describe_error(text: str) -> str:
    """Describe an error, without marks meant for programs and models."""
    if known := _ERROR_CODE_TEXTS.get(text.strip()):
        return known
    said = _ERROR_TAGS_RE.sub("", _unwrap_json_error(text)).strip()
    evidence = _MODEL_ONLY_DETAILS_RE.search(said)
    return said if evidence is None else _summarize_error(said[: evidence.start()])


def _summarize_error(said: str) -> str:
    """Return the sentence that says why something failed, after the line that says what failed."""
    *before, last = (each.strip() for each in said.split("\n\n"))
    sentence = _SENTENCE_RE.match(last)
    why = sentence[0] if sentence else last
    if before and not before[-1].endswith("."):
        return f"{before[-1]}. {why}"
    return why


def _unwrap_json_error(text: str) -> str:
    """Return the message in a JSON envelope, if the text is one, as in tasks of earlier
    versions."""
    start = text.find("{")
    if start < 0:
        return text
    try:
        envelope = msgspec.json.decode(text[start:])
    except msgspec.DecodeError:
        return text
    if not isinstance(envelope, dict) or "status" not in envelope:
        return text
    said = envelope.get("error") or envelope.get("feedback") or envelope.get("message") or ""
    return f"{text[:start]}{said}"


def describe_command_exit(ended: ToolFinished | Row) -> str:
    """Describe how a command ended, if that is worth a line."""
    if ended.exit_code:
        return f"exit {ended.exit_code}"
    if ended.signal:
        return f"ended by {ended.signal}"
    return "" if ended.ending is None else _ENDING_TEXTS[ended.ending]


def describe_retry(event: RetryCountdown) -> str:
    """Format `trying again in 5 s (retry 2 of 6)`."""
    of = f" of {event.max_attempts}" if event.max_attempts else ""
    return f"trying again in {event.seconds} s (retry {event.attempt}{of})"


def describe_provider_error(text: str) -> str:
    """Describe why a request failed: its sentence, without the number before it for programs."""
    return _HTTP_STATUS_PREFIX_RE.sub("", text)


def describe_failed_attempt(event: RetryCountdown) -> str:
    """Describe when a request is sent again, and why."""
    return f"{describe_retry(event)}: {describe_provider_error(event.message)}"
