from __future__ import annotations

import pytest

from joey.errors import ConfigError
from joey.providers.http_connection import find_proxy, parse_url


def test_a_url_is_taken_apart() -> None:
    address = parse_url("https://Example.com/v1/messages?beta=true")
    assert (address.host, address.port, address.is_secure) == ("Example.com", 443, True)
    assert (address.path, address.authority) == ("/v1/messages?beta=true", "Example.com")


def test_a_url_may_name_a_port_and_an_ipv6_address() -> None:
    address = parse_url("http://[::1]:8080")
    assert (address.host, address.port, address.path) == ("::1", 8080, "/")
    assert (address.host_and_port, address.authority) == ("[::1]:8080", "[::1]:8080")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com",
        "http://",
        "http://a b/",
        "http://a:99999",
        "http://ä/",
    ],
)
def test_what_is_no_address_is_refused_with_its_name(url: str) -> None:
    with pytest.raises(ConfigError, match="base URL"):
        parse_url(url)


PROXY = "http://user:p%40ss@proxy.test:3128"


@pytest.mark.parametrize(
    ("url", "environ", "goes_through"),
    [
        ("https://api.test/", {}, False),
        ("https://api.test/", {"HTTPS_PROXY": PROXY}, True),
        ("https://api.test/", {"https_proxy": PROXY}, True),
        ("https://api.test/", {"HTTP_PROXY": PROXY}, False),
        ("http://api.test/", {"HTTP_PROXY": PROXY}, True),
        ("http://api.test/", {"ALL_PROXY": PROXY}, True),
        ("https://api.test/", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, False),
        ("https://api.test/", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other, api.test"}, False),
        ("https://api.test/", {"HTTPS_PROXY": PROXY, "no_proxy": ".test"}, False),
        ("https://a.api.test/", {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.test"}, False),
        ("https://myapi.test/", {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.test"}, True),
        ("https://api.test/", {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.test:443"}, False),
        ("https://api.test/", {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.test:8443"}, True),
        ("https://10.1.2.3/", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, False),
        ("https://11.1.2.3/", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, True),
        ("http://localhost:11434/", {"HTTP_PROXY": PROXY}, False),
        ("http://127.0.0.1:11434/", {"HTTP_PROXY": PROXY}, False),
        ("http://[::1]:11434/", {"HTTP_PROXY": PROXY}, False),
    ],
)
def test_the_environment_chooses_the_proxy(
    url: str, environ: dict[str, str], goes_through: bool
) -> None:
    proxy = find_proxy(parse_url(url), environ)
    assert (proxy is not None) is goes_through
    if proxy is not None:
        assert (proxy.host_and_port, proxy.credentials) == ("proxy.test:3128", "user:p@ss")


def test_a_proxy_may_be_written_without_a_scheme() -> None:
    proxy = find_proxy(parse_url("http://api.test"), {"HTTP_PROXY": "proxy.test:8080"})
    assert proxy is not None
    assert proxy.host_and_port == "proxy.test:8080"


@pytest.mark.parametrize("value", ["socks5://proxy.test", "https://proxy.test", "http://"])
def test_a_proxy_that_cannot_be_used_is_an_error_that_names_the_variable(value: str) -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY"):
        find_proxy(parse_url("https://api.test"), {"HTTPS_PROXY": value})
