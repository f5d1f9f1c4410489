"""Wire form, key and redirect targets against our own pairs, WPT's URL tests and Nutch's normaliser tests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.errors import InvalidURL
from crawler.urls import canonicalize, fingerprint, key_form, redirect_target
from tests.unit.cases import CASES, lines, own, parameters

# What DNS forbids and WHATWG allows: empty labels and labels over 63 octets cannot be looked up.
NOT_RESOLVABLE = {"http://./", "http://../", "http://foo.09.."}

# Nutch folds what is here another URL by policy: index pages, double slashes; it also keeps a query in a fragment.
NUTCH_MERGES_MORE = ("/index.", "/default.", "//path//", "#something?x=y")


@pytest.mark.parametrize("case", own("url-pairs.json"))
def test_pair_has_one_key_or_two(case: dict[str, Any]) -> None:
    assert (fingerprint(case["a"]) == fingerprint(case["b"])) is case["equivalent"], case["why"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("http://example.com/?b=2&a=1", "http://example.com/?a=1&b=2"),
        ("http://example.com/%7Efoo", "http://example.com/~foo"),
        ("http://example.com/90%", "http://example.com/90%25"),
        ("http://example.com./", "http://example.com/"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com/?q=a+b", "http://example.com/?q=a%20b"),
        ("http://example.com/?UTM_Source=x&a=1", "http://example.com/?a=1"),
        ("http://example.com/a;JSESSIONID=1?x=1", "http://example.com/a?x=1"),
        ("http://example.com/?PHPSESSID=1", "http://example.com/?sid=2"),
        ("http://example.com/?p[]=1", "http://example.com/?p%5b%5d=1"),
        ("http://example.com/?a=1&&b=2&", "http://example.com/?a=1&b=2"),
        ("http://example.com/%2c", "http://example.com/%2C"),
        ("http://example.com/p%2d1/", "http://example.com/p-1/"),
    ],
)
def test_one_key(a: str, b: str) -> None:
    assert fingerprint(a) == fingerprint(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("http://example.com/", "https://example.com/"),
        ("http://example.com/a", "http://example.com/a/"),
        ("http://example.com/", "http://www.example.com/"),
        ("http://example.com/", "http://example.com/index.html"),
        ("http://example.com/?a", "http://example.com/?a="),
        ("http://example.com/?a=1&a=2", "http://example.com/?a=2&a=1"),
        ("http://example.com/a%2Fb", "http://example.com/a/b"),
        ("http://example.com/AC%252FDC", "http://example.com/AC%2FDC"),
        ("http://example.com/?newsid=1", "http://example.com/?newsid=2"),
        ("http://example.com/?q=a%2Bb", "http://example.com/?q=a+b"),
        ("http://example.com/a?b=/c", "http://example.com/a/b=/c"),
    ],
)
def test_two_keys(a: str, b: str) -> None:
    assert fingerprint(a) != fingerprint(b)


def test_key_form_is_what_is_hashed_and_hides_user_info() -> None:
    assert key_form("http://EXAMPLE.com:80/a;sid=1?b=%2f&a=%7e#x") == "http://example.com/a?a=~&b=%2F"
    assert "secret" not in key_form("http://user:secret@example.com/")
    assert -(1 << 63) <= fingerprint("http://example.com/") < 1 << 63


def test_keys_do_not_change_between_releases() -> None:
    assert fingerprint("http://example.com/") == -5081748069831205333
    assert fingerprint("https://example.com/a?b=2&a=1") == 7592996144104040523


def test_dropped_parameters_are_the_callers_choice() -> None:
    assert key_form("http://example.com/?ref=1&sid=2", frozenset({"Ref"})) == "http://example.com/?sid=2"
    assert key_form("http://example.com/a;sid=1?utm_x=1", frozenset()) == "http://example.com/a;sid=1?utm_x=1"


@pytest.mark.parametrize("line", parameters(lines("nutch/urlnormalizer-regex/regex-normalize-default.test")))
def test_nutch_normaliser_cases(line: str) -> None:
    raw, normal = line.split()
    if raw.startswith("file:"):
        with pytest.raises(InvalidURL):
            fingerprint(raw)
    elif raw != normal and any(part in raw.lower() for part in NUTCH_MERGES_MORE):
        assert (fingerprint(raw) == fingerprint(normal)) is (raw.partition("#")[0] == normal)
    else:
        assert fingerprint(raw) == fingerprint(normal)


def _wpt(name: str) -> list[Any]:
    cases = json.loads((CASES / "wpt-url/wpt" / name).read_text("utf-8")) if CASES.is_dir() else []
    return parameters(case for case in cases if isinstance(case, dict))


@pytest.mark.parametrize(
    "case",
    [
        *_wpt("urltestdata.json"),
        *_wpt("urltestdata-javascript-only.json"),
        *_wpt("ada_extra_urltestdata.json"),
    ],
)
def test_wire_form_is_whatwg(case: dict[str, Any]) -> None:
    source, base = case["input"], case.get("base")
    fetchable = not case.get("failure") and case["protocol"] in ("http:", "https:") and source not in NOT_RESOLVABLE
    if fetchable:
        # `href` less fragment and user info; a `?` with nothing after it is in `href` and not in `search`.
        expected = case["href"].partition("#")[0]
        if case["username"] or case["password"]:
            scheme, _, rest = expected.partition("//")
            expected = f"{scheme}//{rest.partition('@')[2]}"
        assert canonicalize(source, base) == expected
    else:
        with pytest.raises(InvalidURL):
            canonicalize(source, base)


@pytest.mark.parametrize("case", _wpt("toascii.json"))
def test_hosts_are_mapped_by_uts46(case: dict[str, Any]) -> None:
    url, output = f"https://{case['input']}/x", case["output"]
    labels = (output or "").removesuffix(".").split(".")
    if len(".".join(labels)) > 253 or not all(0 < len(label) < 64 for label in labels):
        with pytest.raises(InvalidURL):
            canonicalize(url)
    else:
        assert canonicalize(url) == f"https://{output}/x"


@pytest.mark.parametrize("case", _wpt("verifydnslength_tests.json"))
def test_hosts_obey_dns_lengths(case: dict[str, Any]) -> None:
    if case.get("failure"):
        with pytest.raises(InvalidURL):
            canonicalize(case["input"])
    else:
        assert canonicalize(case["input"])


@pytest.mark.parametrize(
    ("url", "wire"),
    [
        ("HTTP://Example.COM:80/a/../b?x=[]#frag", "http://example.com/b?x=[]"),
        ("http://u:p@example.com/a%2cb", "http://example.com/a%2cb"),
        ("http://example%2Ecom/", "http://example.com/"),
        ("http://fa\u00df.example/", "http://xn--fa-hia.example/"),
        ("http://[2001:DB8:0::1]:8080/a", "http://[2001:db8::1]:8080/a"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://example.com/\ud83d", "http://example.com/%EF%BF%BD"),
        ("http://a_b.example./", "http://a_b.example./"),
        (f"http://{'a' * 63}.example/", f"http://{'a' * 63}.example/"),
    ],
)
def test_wire_form(url: str, wire: str) -> None:
    assert canonicalize(url) == wire


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://",
        "http://[::1",
        "http://a..b.example/",
        "http://example.com:99999/",
        f"http://{'a' * 64}.example/",
        f"http://{'a.' * 127}example/",
        "http://exa mple.com/",
    ],
)
def test_what_cannot_be_fetched_is_named(url: str) -> None:
    with pytest.raises(InvalidURL) as raised:
        canonicalize(url)
    assert repr(url[:200]) in str(raised.value)
    with pytest.raises(InvalidURL):
        fingerprint(url)


def test_a_message_shows_no_password() -> None:
    with pytest.raises(InvalidURL) as raised:
        canonicalize("http://user:secret@a..b/")
    assert "secret" not in str(raised.value)


# The address guard at the socket refuses these: it knows ALLOWED_PRIVATE_NETWORKS and what names resolve to.
GUARDED_AT_THE_SOCKET = {"private", "loopback-hex"}


@pytest.mark.parametrize("case", own("redirects.json"))
def test_redirect_leads(case: dict[str, Any]) -> None:
    target = redirect_target(case["source"], case["location"].encode())
    if case["id"] in GUARDED_AT_THE_SOCKET:
        assert target == canonicalize(case["location"])
    else:
        assert target == case["expect"], case["why"]


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (b"/fa/\xd8\xa7", "https://e.example/fa/%D8%A7"),
        (b"/\xe9", "https://e.example/%E9"),
        (b"/s/?p[]=524", "https://e.example/s/?p[]=524"),
        (b"http%3A//t.example/a", "https://e.example/dir/http%3A//t.example/a"),
        (b" \t ", None),
        (b"mailto:a@e.example", None),
        (b"http://u:p@t.example/#x", "http://t.example/"),
    ],
)
def test_redirect_bytes_are_kept(location: bytes, target: str | None) -> None:
    assert redirect_target("https://e.example/dir/page", location) == target


_paths = st.text("ab%2fF./;=?&+~[]{}|'\"# ", max_size=30)


@given(_paths)
def test_forms_are_stable(tail: str) -> None:
    wire = canonicalize(f"http://example.com/{tail}")
    assert canonicalize(wire) == wire
    assert fingerprint(wire) == fingerprint(f"http://example.com/{tail}")
    assert key_form(key_form(wire)) == key_form(wire)


@given(st.text(max_size=40))
def test_any_text_is_a_url_or_named_invalid(text: str) -> None:
    for url in (text, f"http://{text}", f"http://example.com/{text}"):
        try:
            wire = canonicalize(url)
        except InvalidURL:
            continue
        assert wire.isascii()
        assert canonicalize(wire) == wire
        assert fingerprint(wire) == fingerprint(key_form(wire))
