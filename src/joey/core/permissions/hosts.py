"""The hosts that a sandboxed command may reach.

`packages.example` is that host alone, `*.mirror.example` all below that name and not the name
itself, and `localhost:8080` one port of it; without a port 80 and 443 are meant. Addresses are
reached only if they are listed as such. Ambiguous entries are rejected, in the list as in a
request, and so are names without a dot, which are slips of words such as `off`. The entry
`registries` stands for the hosts that package managers and git remotes are configured with.
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
        """`name` is one that `normalize_host` has given."""
        ports = WEB_PORTS if self.port is None else (self.port,)
        return self.matches_name(name) and port in ports

    def matches_name(self, name: str) -> bool:
        """Whatever the port."""
        return name.endswith(f".{self.name}") if self.is_wildcard else name == self.name

    @property
    def is_local_or_address(self) -> bool:
        """The user means this machine, or an address, and not a name that leads wherever its
        owner wants."""
        return not self.is_wildcard and (
            is_local_name(self.name) or parse_address(self.name) is not None
        )

    def covers(self, entry: AllowedHost) -> bool:
        """Whether all that another entry allows is allowed by this one."""
        if self.port is not None and self.port != entry.port:
            return False
        if self.port is None and entry.port not in (None, *WEB_PORTS):
            return False
        is_same = entry.name == self.name and entry.is_wildcard == self.is_wildcard
        return is_same or (self.is_wildcard and entry.name.endswith(f".{self.name}"))


class NetworkOrigin(Struct, frozen=True):
    """Where a task has its network setting from, and how far it may go."""

    user_setting: NetworkSetting | None = None
    """The one in the user's file when the task's was chosen; None: when the task was opened."""
    is_pinned: bool = False
    """A flag or a client has chosen: the user's file can only take away."""
    ceiling: NetworkSetting = "all"
    """What the project allows."""


class CommandNetwork(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a command may reach, and what a user may add with the answer."""

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
    """An entry of `sandboxNetwork`. Raises ValueError: with what is wrong about it."""
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
    """Raises ValueError: with what is wrong about it."""
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
    """The entries of a setting that is neither `off` nor `all`, which have none."""
    if setting == REGISTRIES:
        return (REGISTRIES,)
    return () if isinstance(setting, str) else setting


def join_entries(entries: Iterable[str]) -> NetworkSetting:
    """The setting that has these entries, each once."""
    unique = tuple(dict.fromkeys(entries))
    return REGISTRIES if unique == (REGISTRIES,) else unique or "off"


def add_host(setting: NetworkSetting, host: str) -> NetworkSetting:
    """The setting with one more host; `all` has every one."""
    return setting if setting == "all" else join_entries((*list_entries(setting), host))


def format_network(setting: NetworkSetting) -> str:
    """`off`, `all`, `registries` or the hosts."""
    return setting if isinstance(setting, str) else ", ".join(setting) or "no hosts found"


def intersect_hosts(own: NetworkSetting, restriction: NetworkSetting) -> NetworkSetting:
    """What both allow. `registries` and a host have nothing in common: what the registries are is
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
    """A host and its port; a port that is none stays with the host, which then is none either."""
    name, colon, port = text.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")):
        return text, None
    if not port.isascii() or not port.isdigit() or len(port) > 5:
        return text, None
    return name, int(port)


def normalize_host(text: str) -> str | None:
    """The one spelling of a host; None when it is none, or could be taken for another."""
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
        # Resolvers also take `127.1` and `0x7f000001` for addresses.
        found = parse_address(name)
        return str(found) if found is not None and found.version == 4 else None
    return name


def parse_address(text: str) -> IpAddress | None:
    from ipaddress import ip_address  # whoever starts joey need not wait for it

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
    """Neither this machine nor a net of somebody's own, nor where clouds tell their secrets."""
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
