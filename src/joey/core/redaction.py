"""Redaction of secrets in configurations, logs and exports.

A secret is recognised by its value, where that is in use here and therefore known, or by its
shape. Neither finds everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from joey.core.text import compile_regex

REDACTION_TEXT = "[secret]"
MIN_SECRET_CHARS = 6
"""Shorter values would make a riddle of any text."""

_SECRET_KEY_RE = compile_regex(r"(key|token|credentials|secret|password)$", re.IGNORECASE)
_HEADERS_KEY_RE = compile_regex(r"headers$", re.IGNORECASE)
_URL_CREDENTIALS_RE = compile_regex(r"(?<=://)[^/@\s]*@")
_URL_PASSWORD_RE = compile_regex(r"(?<=://)(?P<user>[^/@:\s]*):[^/@\s]*(?=@)")
_SECRET_VARIABLE_RE = compile_regex(
    r"(api_?key|access_?key|_token|_secret|_password)$", re.IGNORECASE
)
_WITHHELD_VARIABLE_RE = compile_regex(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE
)
_UNRESERVED_URL_CHARACTERS = frozenset("-._~")

_TOKEN_PATTERNS = (
    r"sk-(?=[\w-]{0,200}\d)[\w-]{20,200}",
    r"gh[opsur]_[A-Za-z0-9]{20,255}",
    r"github_pat_\w{20,255}",
    r"glpat-[\w-]{16,255}",
    r"xox[abeprs]-[\w-]{10,255}",
    r"hf_[A-Za-z0-9]{20,255}",
    r"AKIA[0-9A-Z]{16}",
    r"AIza[\w-]{35}",
    r"eyJ[\w-]{10,4000}\.eyJ[\w-]{4,4000}\.[\w-]{10,4000}",
)
_TOKEN_MARKERS = tuple(
    """
    sk- ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ glpat- xox hf_ AKIA AIza eyJ KEY-----
    """.split()  # noqa: SIM905 (easier to read than a literal)
)
"""Looking for one of these is quick; most texts, images above all, have none."""
_TOKEN_RE = compile_regex(
    rf"(?<![\w-])(?:{'|'.join(_TOKEN_PATTERNS)})(?![\w-])"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}KEY-----|\Z)"
)
_LABELLED_SECRET_RE = compile_regex(
    r"((?:authorization|api[-_]?key|token|secret|password)[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
    r"(?:(?:bearer|basic)\s)?|\bbearer\s)[^\s\"',;&)\]}]{8,}",
    re.IGNORECASE,
)


class KnownSecrets:
    """Values that are in use, gathered where they are met."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, *values: str | None) -> None:
        self._values.update(value for value in values if value)

    def add_environment_secrets(self, env: Mapping[str, str]) -> None:
        """What variables hold whose names say so."""
        self.add(*(value for name, value in env.items() if _SECRET_VARIABLE_RE.search(name)))

    def redact(self, text: str) -> str:
        return redact_secrets(text, self._values)

    def mask(self, data: bytes) -> bytes:
        """The data with an asterisk for each byte of a known value."""
        for value in self._values:
            form = value.encode("utf-8", "replace")
            if len(value) >= MIN_SECRET_CHARS and form in data:
                data = data.replace(form, b"*" * len(form))
        return data


def is_secret_key(name: str) -> bool:
    """By the name of a setting."""
    return _SECRET_KEY_RE.search(name) is not None


def collect_secret_values(values: Mapping[str, str]) -> list[str]:
    """Those whose names say that they are secret."""
    return [value for name, value in values.items() if is_secret_key(name)]


def strip_url_credentials(address: str | None) -> str | None:
    """An address without the user and password that may be in it."""
    return None if address is None else _URL_CREDENTIALS_RE.sub("", address)


def strip_url_password(address: str) -> str:
    """An address with the user, but without the password that may be in it."""
    return _URL_PASSWORD_RE.sub(r"\g<user>", address)


def has_secret_name(variable: str) -> bool:
    """By its name, for a variable that would otherwise be passed on."""
    return _WITHHELD_VARIABLE_RE.search(variable) is not None


def redact_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without these values, in any usual spelling, and without what looks like one."""
    forms = {form for value in known for form in _iter_spellings(value)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, REDACTION_TEXT)
    text = _URL_CREDENTIALS_RE.sub("", text)
    has_token = any(mark in text for mark in _TOKEN_MARKERS)
    return _TOKEN_RE.sub(REDACTION_TEXT, text) if has_token else text


def redact_log_line(text: str, redact_text: Callable[[str], str]) -> str:
    """For logs, which nobody reads for their words: also what is only called a secret."""
    return _LABELLED_SECRET_RE.sub(rf"\1{REDACTION_TEXT}", redact_text(text))


def remove_secrets(value: Any, redact_text: Callable[[str], str] | None = None) -> Any:
    """The same value without keys, tokens and passwords, at any depth. `redact_text` is for texts
    that may hold any: what somebody said or printed."""
    match value:
        case dict():
            return {
                # Any header may carry a key; which ones there are may be known.
                name: (sorted(inner) if isinstance(inner, dict) else [])
                if _HEADERS_KEY_RE.search(name)
                else remove_secrets(inner, redact_text)
                for name, inner in value.items()
                if isinstance(inner, bool) or not is_secret_key(name)
            }
        case list() | tuple():
            return [remove_secrets(inner, redact_text) for inner in value]
        case str():
            return _URL_CREDENTIALS_RE.sub("", value) if redact_text is None else redact_text(value)
        case _:
            return value


def _iter_spellings(value: str) -> Iterator[str]:
    """As it is, without `Bearer` before it, and as JSON and addresses spell it."""
    for word in {value.strip(), *value.split()[-1:]}:
        if len(word) >= MIN_SECRET_CHARS:
            yield word
            yield word.replace("\\", "\\\\").replace('"', '\\"')
            yield "".join(map(_percent_encode, word))


def _percent_encode(letter: str) -> str:
    plain = letter.isascii() and (letter.isalnum() or letter in _UNRESERVED_URL_CHARACTERS)
    return letter if plain else "".join(f"%{byte:02X}" for byte in letter.encode())
