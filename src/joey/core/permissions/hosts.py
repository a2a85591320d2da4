"""The hosts that a sandboxed command may reach.

`packages.example` is only that host, `*.mirror.example` all hosts below that name but not the name
itself, and `localhost:8080` a single port; without a port, 80 and 443 are meant. IP addresses are
reachable only if they are listed. Ambiguous entries are rejected, in the list and in requests, and
so are names without a dot, which are typically misspelt values such as `off`. The entry
`registries` means the hosts that package managers and git remotes are configured with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from joey.core.text import compile_regex

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Address, IPv6Address

    IpAddress = IPv4Address | IPv6Address

NetworkChoice = Literal["off", "registries", "all"]
NetworkSetting = NetworkChoice | tuple[str, ...]
"""What commands may reach: `sandboxNetwork`."""
REGISTRIES: Literal["registries"] = "registries"
WEB_PORTS = (80, 443)
_HOST_LABEL_RE = compile_regex(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC_LABEL_RE = compile_regex(r"\d+|0x[0-9a-f]*")
_AMBIGUOUS_IDNA_RE = compile_regex("[ßẞς\u200c\u200d]")
"""What the two standards of names in other scripts make different hosts of."""


class AllowedHost(Struct, frozen=True):
    name: str
    port: int | None = None
    is_wildcard: bool = False
    """All hosts below the name, and not the name itself."""

    def allows(self, name: str, port: int) -> bool:
        """Whether a host is allowed; `name` is from `normalize_host`."""
        ports = WEB_PORTS if self.port is None else (self.port,)
        return self.matches_name(name) and port in ports

    def matches_name(self, name: str) -> bool:
        """Whether the name matches, with any port."""
        return name.endswith(f".{self.name}") if self.is_wildcard else name == self.name

    @property
    def is_local_or_address(self) -> bool:
        """Whether the entry means this machine or an IP address, rather than a name that its owner
        can point anywhere."""
        return not self.is_wildcard and (
            is_local_name(self.name) or parse_address(self.name) is not None
        )

    def covers(self, entry: AllowedHost) -> bool:
        """Whether this entry allows everything that another one allows."""
        if self.port is not None and self.port != entry.port:
            return False
        if self.port is None and entry.port not in (None, *WEB_PORTS):
            return False
        is_same = entry.name == self.name and entry.is_wildcard == self.is_wildcard
        return is_same or (self.is_wildcard and entry.name.endswith(f".{self.name}"))


class NetworkOrigin(Struct, frozen=True):
    """Where a task's network setting comes from, and its limits."""

    user_setting: NetworkSetting | None = None
    """The one in the user's file when the task's was chosen; None: when the task was opened."""
    is_pinned: bool = False
    """A flag or a client has chosen: the user's file can only take away."""
    ceiling: NetworkSetting = "all"
    """What the project allows."""


class CommandNetwork(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The hosts that a command may reach, and those that a user may add with the answer."""

    setting: NetworkSetting = "off"
    """That of the command, with the registries as hosts: `off`, `all` or a list."""
    can_open: bool = False
    """A yes may open the whole network for this command."""
    offered_hosts: tuple[str, ...] = ()
    """Hosts that a yes may allow in this directory."""
    limitation: str = ""
    """Why hosts are not offered, or cannot be told apart."""
    is_retry: bool = False
    """The command has failed for lack of network; a yes runs it again."""


def parse_host(entry: str) -> AllowedHost:
    """Parse an entry of `sandboxNetwork`. Raises ValueError, which names the problem."""
    shown = f"`{entry[:80]}` in `sandboxNetwork`"
    if "/" in entry or "@" in entry:
        raise ValueError(
            f"{shown} has to be a host, such as `packages.example`, without scheme and path"
        )
    name, port = split_port(entry)
    is_wildcard = name.startswith("*.")
    plain = normalize_host(name.removeprefix("*."))
    if plain is None or (is_wildcard and parse_address(plain) is not None):
        raise ValueError(
            f"{shown} is not a host: write `packages.example`, `*.mirror.example`,"
            " `localhost:8080`, `10.0.0.1` or `[::1]:8080`; names that standards disagree about as"
            " `xn--…`"
        )
    if is_wildcard and "." not in plain:
        raise ValueError(f"{shown} would allow everybody; `all` opens the whole network")
    if "." not in plain and ":" not in plain and plain != "localhost":
        raise ValueError(
            f"{shown} is not a host: a name has a dot, unless it is `localhost`. Or write `off`,"
            " `registries` or `all`"
        )
    if port is not None and not 0 < port < 65536:
        raise ValueError(f"{shown} has a port that cannot be")
    return AllowedHost(plain, port, is_wildcard)


def check_network(setting: NetworkSetting) -> None:
    """Check a network setting. Raises ValueError, which names the problem."""
    if isinstance(setting, str):
        if setting not in ("off", REGISTRIES, "all"):
            raise ValueError(
                "`sandboxNetwork` can be `off`, `registries`, `all` or a list of hosts"
            )
        return
    for each in setting:
        if each != REGISTRIES:
            parse_host(each)


def list_entries(setting: NetworkSetting) -> tuple[str, ...]:
    """List the entries of a setting other than `off` and `all`, which have none."""
    if setting == REGISTRIES:
        return (REGISTRIES,)
    return () if isinstance(setting, str) else setting


def join_entries(entries: Iterable[str]) -> NetworkSetting:
    """Join entries into a setting, each once."""
    unique = tuple(dict.fromkeys(entries))
    return REGISTRIES if unique == (REGISTRIES,) else unique or "off"


def add_host(setting: NetworkSetting, host: str) -> NetworkSetting:
    """Add a host to the setting; `all` includes every host."""
    return setting if setting == "all" else join_entries((*list_entries(setting), host))


def format_network(setting: NetworkSetting) -> str:
    """`off`, `all`, `registries` or the hosts."""
    return setting if isinstance(setting, str) else ", ".join(setting) or "no hosts found"


def intersect_hosts(own: NetworkSetting, restriction: NetworkSetting) -> NetworkSetting:
    """Return what both allow. `registries` and a host have nothing in common: the registries are
    known only when a command runs."""
    if own == "off" or restriction == "off":
        return "off"
    if own == "all":
        return restriction or "off"
    if restriction == "all":
        return own
    mine, theirs = list_entries(own), list_entries(restriction)
    common = [entry for entry in mine if any(_covers(each, entry) for each in theirs)]
    common += [entry for entry in theirs if any(_covers(each, entry) for each in mine)]
    return join_entries(common)


def _covers(entry: str, other: str) -> bool:
    if REGISTRIES in (entry, other):
        return entry == other
    return parse_host(entry).covers(parse_host(other))


def split_port(text: str) -> tuple[str, int | None]:
    """Split a host from its port; an invalid port stays with the host, which is then invalid
    too."""
    name, colon, port = text.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")):
        return text, None
    if not port.isascii() or not port.isdigit() or len(port) > 5:
        return text, None
    return name, int(port)


def normalize_host(text: str) -> str | None:
    """Normalize a host; None if it is invalid or ambiguous."""
    if text.startswith("[") and text.endswith("]"):
        found = parse_address(text[1:-1])
        return str(found) if found is not None and found.version == 6 else None
    if ":" in text:
        found = parse_address(text)
        return str(found) if found is not None else None
    name = text.lower().removesuffix(".")
    if not name.isascii():
        if _AMBIGUOUS_IDNA_RE.search(name):
            return None
        try:
            name = name.encode("idna").decode("ascii").lower()
        except UnicodeError:
            return None
    labels = name.split(".")
    if len(name) > 253 or not all(_HOST_LABEL_RE.fullmatch(label) for label in labels):
        return None
    if _NUMERIC_LABEL_RE.fullmatch(labels[-1]):
        # Resolvers also read `127.1` and `0x7f000001` as addresses.
        found = parse_address(name)
        return str(found) if found is not None and found.version == 4 else None
    return name


def parse_address(text: str) -> IpAddress | None:
    from ipaddress import ip_address  # not needed at startup

    try:
        found = ip_address(text)
    except ValueError:
        return None
    if found.version == 6 and (found.scope_id or found.ipv4_mapped):
        return None
    return found


def is_local_name(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def is_public_address(address: IpAddress) -> bool:
    """Whether an address is public: not this machine, a private network, or a cloud's metadata
    service."""
    from ipaddress import IPv4Address

    if address.version == 6:
        is_nat64 = address.packed.startswith(_NAT64_PREFIX)
        inner = address.ipv4_mapped or address.sixtofour
        inner = inner or (IPv4Address(address.packed[-4:]) if is_nat64 else None)
        if inner is not None:
            return is_public_address(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


_NAT64_PREFIX = bytes.fromhex("0064ff9b") + bytes(8)
"""Of addresses that networks without the older protocol make of its own."""
