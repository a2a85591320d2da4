"""Clients: which program sent a request, and the id that it gives to its conversation.

A program is identified by its user agent, else by its prompt, else by the prompt's fingerprint.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from joey.core.text import compile_regex
from joey.providers.errors import decode_object
from joey.proxy.exchange import Exchange, find_header
from joey.proxy.prompt_sections import compute_fingerprint
from joey.proxy.request_blocks import ModelRequestBody


class ClientEvidence(StrEnum):
    AGENT = "agent"
    PROMPT = "prompt"
    FINGERPRINT = "fingerprint"


class Client(Struct, frozen=True):
    name: str
    by: ClientEvidence
    is_test: bool = False
    """A program for sending single requests, not an AI client."""


OWN_CLIENT = Client("joey", ClientEvidence.AGENT)
"""The client name of requests joey recorded itself."""
_AGENTS = tuple(
    (compile_regex(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"^claude-(cli|code)\b|^claude/", "claude-code"),
        (r"^codex[\w-]*/|\bcodex_(cli|exec|vscode)|^codex_", "codex"),
        (r"\bopencode/", "opencode"),
        (r"^qwen-?code\b", "qwen-code"),
        (r"^gemini-?cli\b", "gemini-cli"),
        (r"^joey\b", "joey"),
        (r"^(roo-?code|roo-?cline|roo)\b", "roo-code"),
        (r"^zoo-?code\b", "zoo-code"),
        (r"^kilo-?code\b", "kilo-code"),
        (r"^cline\b", "cline"),
        (r"^aider\b", "aider"),
        (r"^(pi|pi-coding-agent)/", "pi"),
        (r"^crush\b|^charm", "crush"),
        (r"^goose\b", "goose"),
        (r"^open-?hands\b", "openhands"),
        (r"^zed\b", "zed"),
        (r"^githubcopilot\b", "copilot"),
    )
)
_TEST_AGENTS = tuple(
    (compile_regex(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"^axios\b", "axios"),
        (r"^curl\b", "curl"),
        (r"^wget\b", "wget"),
        (r"^python-httpx\b|^httpx\b", "httpx"),
        (r"^python-requests\b", "requests"),
        (r"^python-urllib\b", "urllib"),
        (r"\baiohttp\b", "aiohttp"),
        (r"^httpie\b", "httpie"),
        (r"^postman", "postman"),
        (r"^insomnia\b", "insomnia"),
        (r"^got\b", "got"),
        (r"^node-fetch\b", "node-fetch"),
        (r"^go-http-client\b", "go-http-client"),
        (r"^okhttp\b", "okhttp"),
        (r"^(node-)?superagent\b", "superagent"),
        (r"^apache-httpclient\b", "apache-httpclient"),
        (r"^(libcurl|pycurl)\b", "curl"),
        (r"^apachebench\b|^k6\b|^wrk\b|^hey\b|^vegeta\b", "load-test"),
    )
)
_PROMPT_OPENINGS = tuple(
    (compile_regex(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"You are Claude Code\b", "claude-code"),
        (r"You are (?:a coding agent running in the )?Codex\b|\bCodex CLI\b", "codex"),
        (r"You are Roo\b", "roo-code"),
        (r"You are Zoo\b", "zoo-code"),
        (r"You are Kilo ?Code\b", "kilo-code"),
        (r"You are Cline\b", "cline"),
        (r"You are opencode\b|\bbest coding agent on the planet\b", "opencode"),
        (r"You are Qwen Code\b", "qwen-code"),
        (r"an interactive CLI agent (?:specializing|developed by Alibaba)", "qwen-code"),
        (r"operating inside pi\b|coding agent harness", "pi"),
        (r"You are Goose\b|called goose\b", "goose"),
        (r"You are OpenHands\b", "openhands"),
        (r"^Act as an expert software developer\b", "aider"),
    )
)
_OPENING_CHARS = 2000
_SESSION_HEADERS = (
    "x-claude-code-session-id",
    "session_id",
    "session-id",
    "x-session-id",
    "conversation_id",
    "x-opencode-session",
    "x-session-affinity",
)
_USER_SESSION_RE = compile_regex(r"session_([0-9a-fA-F-]{8,})")
_UNIQUE_ID_RE = compile_regex(r"(?=.*\d)[\w.:-]{16,}")
"""A cache key that may identify a conversation; short ones name a program."""


def identify_client(user_agent: str, prompt: Sequence[str], tool_names: list[str]) -> Client:
    """Identify a client, test programs first: they may send another client's prompt."""
    for pattern, name in _TEST_AGENTS:
        if pattern.search(user_agent):
            return Client(name, ClientEvidence.AGENT, is_test=True)
    for pattern, name in _AGENTS:
        if pattern.search(user_agent):
            return Client(name, ClientEvidence.AGENT)
    opening = "\n".join(prompt)[:_OPENING_CHARS]
    for pattern, name in _PROMPT_OPENINGS:
        if pattern.search(opening):
            return Client(name, ClientEvidence.PROMPT)
    fingerprint = compute_fingerprint(prompt, tool_names)
    return Client(fingerprint, ClientEvidence.FINGERPRINT)


def find_session_key(exchange: Exchange, request: ModelRequestBody) -> str | None:
    """Find the client's id of a conversation; None if it sends none."""
    if exchange.task_id:
        return f"task {exchange.task_id}"
    for name in _SESSION_HEADERS:
        if value := find_header(exchange.request_headers, name).strip("* "):
            return f"id {value}"
    metadata = request.body.get("metadata")
    if isinstance(metadata, dict) and (value := _find_metadata_session(metadata)):
        return f"id {value}"
    key = request.body.get("prompt_cache_key")
    if isinstance(key, str) and _UNIQUE_ID_RE.fullmatch(key):
        return f"id {key}"
    return None


def _find_metadata_session(metadata: dict[str, Any]) -> str:
    """Find the session in Claude Code's user id, which is a string or an object, and in Qwen
    Code's."""
    for name in ("session_id", "sessionId"):
        if isinstance(value := metadata.get(name), str):
            return value
    user = metadata.get("user_id")
    if not isinstance(user, str):
        return ""
    if match := _USER_SESSION_RE.search(user):
        return match[1]
    value = decode_object(user).get("session_id")
    return value if isinstance(value, str) else ""
