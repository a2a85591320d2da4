"""What must not be shown of a server's settings: neither in lists nor in what went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

HIDDEN = "…"
_SHORTEST = 6
"""Letters of a secret; hiding shorter ones would make a riddle of any text."""
_NAME = re.compile(
    r"key|token|secret|passw|passphrase|pwd|auth|credential|cookie|bearer|(?:^|[-_])pat(?:$|[-_])",
    re.IGNORECASE,
)
_OPTION = re.compile(r"-[\w.-]+")
_HEADER_OPTIONS = frozenset({"-H", "--header"})
_GIVEN = re.compile(r"(-{0,2}[\w.-]+)=(.+)", re.DOTALL)
_HEADER = re.compile(r"([\w-]+)\s*:(?!//).*", re.DOTALL)
_USER = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY = re.compile(r"([?&][^=&\s]*=)[^&\s]+")
_KNOWN = re.compile(r"\b(?:sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|eyJ)[\w.-]{8,}")


def is_secret_name(name: str) -> bool:
    return _NAME.search(name) is not None


def arguments_without_secrets(arguments: Iterable[str]) -> Iterator[str]:
    """`--api-key …` in place of what follows it, `TOKEN=…`, `postgres://…@host`."""
    hide = False
    for argument in arguments:
        is_option = _OPTION.fullmatch(argument) is not None
        yield HIDDEN if hide and not is_option else _without_secrets(argument)
        hide = is_option and (argument in _HEADER_OPTIONS or is_secret_name(argument))


def _without_secrets(argument: str) -> str:
    given = _GIVEN.fullmatch(argument)
    if given is not None and (given[1] in _HEADER_OPTIONS or is_secret_name(given[1])):
        return f"{given[1]}={HIDDEN}"
    header = _HEADER.fullmatch(argument)
    if header is not None and is_secret_name(header[1]):
        return f"{header[1]}: {HIDDEN}"
    shown = _QUERY.sub(rf"\1{HIDDEN}", _USER.sub(f"{HIDDEN}@", argument))
    return _KNOWN.sub(HIDDEN, shown)


def address_without_secrets(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return _KNOWN.sub(HIDDEN, parts._replace(query="", fragment="", netloc=host).geturl())


def without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        # Without what may stand before it, too: `Bearer …`, `TOKEN=…`.
        for hidden in (secret.strip(), *secret.split()[-1:], secret.partition("=")[2].strip()):
            if len(hidden) >= _SHORTEST:
                text = text.replace(hidden, HIDDEN)
    return text
