"""Redaction of secrets in configurations, logs and exports.

A secret is recognised by its value, if that is in use and therefore known, or by its format.
Neither finds everything.
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
    """Secret values in use, collected where they are loaded."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, *values: str | None) -> None:
        self._values.update(value for value in values if value)

    def add_environment_secrets(self, env: Mapping[str, str]) -> None:
        """Add the values of variables whose names mean secrets."""
        self.add(*(value for name, value in env.items() if _SECRET_VARIABLE_RE.search(name)))

    def redact(self, text: str) -> str:
        return redact_secrets(text, self._values)

    def mask(self, data: bytes) -> bytes:
        """Mask known values in the data with an asterisk for each byte."""
        for value in self._values:
            form = value.encode("utf-8", "replace")
            if len(value) >= MIN_SECRET_CHARS and form in data:
                data = data.replace(form, b"*" * len(form))
        return data


def is_secret_key(name: str) -> bool:
    """Whether a setting with this name is a secret."""
    return _SECRET_KEY_RE.search(name) is not None


def collect_secret_values(values: Mapping[str, str]) -> list[str]:
    """Collect the values whose names mean secrets."""
    return [value for name, value in values.items() if is_secret_key(name)]


def strip_url_credentials(address: str | None) -> str | None:
    """Strip user and password from a URL."""
    return None if address is None else _URL_CREDENTIALS_RE.sub("", address)


def strip_url_password(address: str) -> str:
    """Strip the password from a URL, but keep the user."""
    return _URL_PASSWORD_RE.sub(r"\g<user>", address)


def has_secret_name(variable: str) -> bool:
    """Whether a variable's name means a secret, so that it is not passed on."""
    return _WITHHELD_VARIABLE_RE.search(variable) is not None


def redact_secrets(text: str, known: Iterable[str] = ()) -> str:
    """Redact these values in any usual spelling, and text that looks like a secret."""
    forms = {form for value in known for form in _iter_spellings(value)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, REDACTION_TEXT)
    text = _URL_CREDENTIALS_RE.sub("", text)
    has_token = any(mark in text for mark in _TOKEN_MARKERS)
    return _TOKEN_RE.sub(REDACTION_TEXT, text) if has_token else text


def redact_log_line(text: str, redact_text: Callable[[str], str]) -> str:
    """Redact a log line strictly: also values that are only named like secrets."""
    return _LABELLED_SECRET_RE.sub(rf"\1{REDACTION_TEXT}", redact_text(text))


def remove_secrets(value: Any, redact_text: Callable[[str], str] | None = None) -> Any:
    """Remove keys, tokens and passwords from a value at any depth. `redact_text` is applied to
    texts that may contain any, such as messages and output."""
    match value:
        case dict():
            return {
                # Any header may hold a key; its name may be shown.
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
    """Iterate over spellings: unchanged, without `Bearer`, and as escaped in JSON and URLs."""
    for word in {value.strip(), *value.split()[-1:]}:
        if len(word) >= MIN_SECRET_CHARS:
            yield word
            yield word.replace("\\", "\\\\").replace('"', '\\"')
            yield "".join(map(_percent_encode, word))


def _percent_encode(letter: str) -> str:
    plain = letter.isascii() and (letter.isalnum() or letter in _UNRESERVED_URL_CHARACTERS)
    return letter if plain else "".join(f"%{byte:02X}" for byte in letter.encode())
