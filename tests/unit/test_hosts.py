"""Politeness groups and authorities against the public suffix list's own tests."""

from __future__ import annotations

import re

import pytest

from crawler.errors import InvalidURL
from crawler.hosts import authority, hostname, politeness_group
from tests.unit.cases import lines, parameters


@pytest.mark.parametrize(
    ("url", "group"),
    [
        ("http://a.b.example.co.uk:8080/x", "example.co.uk"),
        ("http://h1.test/", "h1.test"),
        ("http://www.h2.test/", "h2.test"),
        ("http://user.github.io/", "user.github.io"),
        ("http://github.io/", "github.io"),
        ("http://com/", "com"),
        ("http://localhost:99/", "localhost"),
        ("http://www.example.com./", "example.com"),
        ("http://www.EXAMPLE%2Ecom/", "example.com"),
        ("http://user:pw@www.example.com/", "example.com"),
        ("http://www.b\u00fccher.example/", "xn--bcher-kva.example"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://2130706433:80/", "127.0.0.1"),
        ("http://[0:0::1]:8080/", "[::1]"),
        ("http://good.example\\@evil.example/", "good.example"),
        ("http://good.example:80@evil.example/", "evil.example"),
        ("http://exam\nple.com/", "example.com"),
    ],
)
def test_group(url: str, group: str) -> None:
    assert politeness_group(url) == group


def test_group_by_host() -> None:
    assert politeness_group("http://www.Example.com.:80/", key="host") == "www.example.com"
    assert politeness_group("http://0x7f.1/", key="host") == "127.0.0.1"


def test_another_key_is_refused() -> None:
    with pytest.raises(ValueError, match="'address'"):
        politeness_group("http://example.com/", key="address")


def test_no_group_without_a_host() -> None:
    for url in ("example.com", "ftp://example.com/", "http://a..b/"):
        with pytest.raises(InvalidURL):
            politeness_group(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://Example.com/x", "http://example.com:80"),
        ("https://example.com.", "https://example.com:443"),
        ("https://example.com:8443/?a:1", "https://example.com:8443"),
        ("http://[::1]/", "http://[::1]:80"),
        ("http://[::1]:81/", "http://[::1]:81"),
    ],
)
def test_authority(url: str, expected: str) -> None:
    assert authority(url) == expected


def _psl(line: str) -> tuple[str, str] | None:
    """Return (host, registrable domain or "") of a line of the list's tests."""
    call = re.fullmatch(r"checkPublicSuffix\('?(.*?)'?, '?(.*?)'?\);", line)
    host, domain = (call[1], call[2]) if call else line.split()[:2]
    return None if host == "null" else (host, "" if domain == "null" else domain)


@pytest.mark.parametrize("line", parameters([*lines("psl/tests.txt"), *lines("psl/test_psl.txt")]))
def test_public_suffix_list(line: str) -> None:
    case = _psl(line)
    if case is None:
        return
    host, domain = case
    if host.startswith("."):
        with pytest.raises(InvalidURL):
            politeness_group(f"http://{host}/")
    else:
        # A public suffix has no registrable domain: it is its own group.
        assert politeness_group(f"http://{host}/") == hostname(f"http://{domain or host}/")
