"""Authentication of clients: the token, and the `Host` and `Origin` checks.

The token is a secret between the server and its clients. The other two checks keep out web pages
that a browser on this machine shows: pages that got here by DNS rebinding (`Host`), and pages from
other sites (`Origin`). They precede everything else, on every request.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from joey.errors import ConfigError
from joey.system.files import PRIVATE_FILE_MODE, create_file, make_private_directory

TOKEN_ENV_VAR = "JOEY_TOKEN"
TOKEN_FILE_NAME = "server.token"
TOKEN_SUBPROTOCOL_PREFIX = "joey.token."
MIN_TOKEN_CHARS = 16
_CODE_BYTES = 24
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Token:
    """A token, compared in constant time."""

    def __init__(self, value: str) -> None:
        self.value = value

    def matches(self, given: str) -> bool:
        return hmac.compare_digest(self.value.encode(), given.encode("utf-8", "replace"))

    def __repr__(self) -> str:
        return "Token(…)"


class LoginCode:
    """A code that logs one browser in, so that links and the browser's history contain no lasting
    secret. After each use, there is a new one."""

    def __init__(self) -> None:
        self.value = secrets.token_urlsafe(_CODE_BYTES)
        self.on_used: Callable[[], None] | None = None
        """Called when there is another one."""

    def redeem(self, given: str) -> bool:
        if not hmac.compare_digest(self.value.encode(), given.encode("utf-8", "replace")):
            return False
        self.value = secrets.token_urlsafe(_CODE_BYTES)
        if self.on_used is not None:
            self.on_used()
        return True

    def __repr__(self) -> str:
        return "LoginCode(…)"


def load_or_create_token(home: Path, env: Mapping[str, str], file: Path | None = None) -> Token:
    """Load the token from the environment, a file or an earlier start, or create one. Raises
    ConfigError."""
    if value := env.get(TOKEN_ENV_VAR, "").strip():
        return _parse_token(value, TOKEN_ENV_VAR)
    if file is not None:
        return _parse_token(_read_token_file(file), str(file))
    stored = home / TOKEN_FILE_NAME
    if stored.exists():
        return _parse_token(_read_token_file(stored), str(stored))
    token = secrets.token_urlsafe(32)
    _write_token_file(stored, token)
    return Token(token)


def _parse_token(value: str, where: str) -> Token:
    if len(value) < MIN_TOKEN_CHARS or not value.isascii() or not value.isprintable():
        raise ConfigError(
            f"The token in {where} is not usable: take at least {MIN_TOKEN_CHARS} printable ASCII"
            " characters, by chance rather than by choice."
        )
    return Token(value)


def _read_token_file(file: Path) -> str:
    try:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"Others may read the token in {file}. Close it: chmod 600 {file}")
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token in {file} cannot be read: {error}.") from error


def _write_token_file(file: Path, token: str) -> None:
    try:
        make_private_directory(file.parent)
        with create_file(file, PRIVATE_FILE_MODE) as stream:
            os.fchmod(stream.fileno(), PRIVATE_FILE_MODE)
            stream.write(f"{token}\n".encode())
    except OSError as error:
        raise ConfigError(f"The token cannot be kept in {file}: {error.strerror}.") from error


class OriginPolicy(Struct, frozen=True):
    """The expected addresses and pages."""

    allowed_hosts: frozenset[str]
    """As in the header: name or address, and the port unless it is the usual one."""
    allowed_origins: frozenset[str]
    """Pages from elsewhere that were allowed by name."""
    scheme: str = "http"
    allows_any_ip_address: bool = False
    """Beyond loopback a client may come by any address; rebinding needs a name."""

    def find_refusal_reason(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return why a request is rejected, or None."""
        found: dict[bytes, list[str]] = {b"host": [], b"origin": []}
        for name, value in headers:
            if name in found:
                found[name].append(value.decode("latin-1").strip().lower())
        hosts, origins = found[b"host"], found[b"origin"]
        if len(hosts) != 1 or not (
            hosts[0] in self.allowed_hosts
            or (self.allows_any_ip_address and _is_ip_address(hosts[0]))
        ):
            return "This Host is not one of this server's."
        allowed = {*self.allowed_origins, f"{self.scheme}://{hosts[0]}"}
        if not origins or (len(origins) == 1 and origins[0] in allowed):
            return None
        return "This Origin is not allowed; see joey serve --allow-origin."


def build_origin_policy(
    host: str, port: int, *, tls: bool, origins: Iterable[str] = (), any_address: bool = False
) -> OriginPolicy:
    """Build the policy. Raises ConfigError if an origin is invalid."""
    usual = 443 if tls else 80
    names = {*LOOPBACK_HOSTS, f"[{host}]" if ":" in host else host}
    hosts = {f"{name}:{port}".lower() for name in names}
    if port == usual:
        hosts |= {name.lower() for name in names}
    allowed = {_parse_origin(origin) for origin in origins}
    hosts |= {urlsplit(origin).netloc for origin in allowed}
    scheme = "https" if tls else "http"
    return OriginPolicy(frozenset(hosts), frozenset(allowed), scheme, any_address)


def _parse_origin(text: str) -> str:
    parts = urlsplit(text.strip().lower().rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query:
        raise ConfigError(f"{text!r} is not an origin such as https://joey.example.org")
    return f"{parts.scheme}://{parts.netloc}"


def _is_ip_address(host: str) -> bool:
    name = host.rpartition("]")[0].removeprefix("[") or host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def extract_token(headers: Mapping[str, str], subprotocols: Iterable[str]) -> str | None:
    """Extract the token of a request, sent in either of the two ways."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    named = (
        p.removeprefix(TOKEN_SUBPROTOCOL_PREFIX)
        for p in subprotocols
        if p.startswith(TOKEN_SUBPROTOCOL_PREFIX)
    )
    return next(named, None)
