"""The two forms of a URL: the wire form, which is sent, and the key, which says whether two URLs are one.

Wire form (`canonicalize`): what the page wrote, serialised by the WHATWG URL standard, without fragment and user info.
Nothing is merged here, for a server may care about what looks equal to us.

Key (`fingerprint`, 64 bits): the hash of a form that is never sent (`key_form`), in which the rules that merge apply:

- RFC 3986 6.2.2: escapes of unreserved characters are decoded, the others written in capitals; a bare `%` becomes
  `%25`; characters that RFC 3986 does not allow in a path or query are escaped;
- the trailing dot of a host is left out (default ports are already, by WHATWG);
- in a query, `+` is a space, empty pieces are left out, and pieces are sorted by name, those of one name in their
  order;
- parameters of sessions and of campaign tracking are left out, in the query and as `;name=value` in the path.

Scheme, `www.`, slashes, index pages, and `?a` against `?a=` stay distinct: merging what they serve is the business of
content dedup.

A changed key form makes every stored key another one: raise the frontier's record version with it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import xxhash
from ada_url import join_url, normalize_url

from crawler.errors import InvalidURL


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRACKING_PARAMETERS: Final = _names(
    "utm_* gclid gclsrc gbraid wbraid dclid fbclid msclkid yclid ysclid twclid ttclid igshid mc_cid mc_eid _ga _gl "
    "_hsenc _hsmi mkt_tok oly_anon_id oly_enc_id vero_id"
)
SESSION_PARAMETERS: Final = _names(
    "jsessionid phpsessid aspsessionid* sid _sid sessid sessionid _sessionid session_id bv_sessionid oscsid zenid cfid "
    "cftoken"
)
DROPPED_PARAMETERS: Final = TRACKING_PARAMETERS | SESSION_PARAMETERS
"""Names that the key leaves out by default, in lower case; one that ends in `*` stands for all that begin so."""

MAX_HOST: Final = 253
"""Octets of a host name, without a trailing dot (RFC 1035 2.3.4, as text)."""
MAX_LABEL: Final = 63
"""Octets of one label of a host name (RFC 1035 2.3.4)."""

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# Most URLs of the web are so plain that they are their own wire form and, but for the query, their own key form. One
# match says so for a third of the price of a parse. The last label begins with a letter: no IPv4 address in any
# spelling.
_plain = re.compile(
    r"(https?://(?:[a-z0-9_-]{1,63}\.)*[a-z][a-z0-9-]{0,62}/[A-Za-z0-9._~/!$&()*+,=:@-]*)(?:\?([A-Za-z0-9._~/=&-]*))?"
).fullmatch

_needs_escaping = re.compile(r"%([0-9A-Fa-f]{2})?|[^A-Za-z0-9._~/?!$&'()*+,;=:@-]").sub


def canonicalize(url: str, base: str | None = None) -> str:
    """Return the wire form of `url`, resolved against `base` when there is one.

    Raises `InvalidURL`, naming the input, for what WHATWG cannot parse, for schemes other than http and https, and for
    hosts that no name server could know: an empty label, a label over 63 octets, a name over 253.
    """
    if _plain_parts(url):
        return url
    href = _serialise(url, base)
    if "@" in href:
        scheme, _, rest = href.partition("//")
        authority, slash, tail = rest.partition("/")
        return f"{scheme}//{authority.rpartition('@')[2]}{slash}{tail}"
    return href


def fingerprint(url: str, drop: frozenset[str] = DROPPED_PARAMETERS) -> int:
    """Return the key of any http or https URL: XXH3-64 of its `key_form`, as a signed 64-bit integer.

    Raises `InvalidURL` as `canonicalize` does.
    """
    digest = xxhash.xxh3_64_intdigest(key_form(url, drop).encode())
    return digest - (digest >> 63 << 64)


def key_form(url: str, drop: frozenset[str] = DROPPED_PARAMETERS) -> str:
    """Return the text that `fingerprint` hashes: to be compared and shown, never fetched.

    User info, which `canonicalize` removes, still tells two URLs apart here, as a digest: a key form shows no secret.
    """
    plain = _plain_parts(url)
    if plain:
        address, query = plain.groups()
        return address if query is None else address + _key_query(query, drop)
    scheme, _, rest = _serialise(url, None).partition("://")
    authority, _, tail = rest.partition("/")
    path, _, query = tail.partition("?")
    if ";" in tail:
        session = _dropped(drop)[2]
        path, query = session.sub("", path), session.sub("", query)
    return f"{scheme}://{_key_authority(authority)}/{_key_escapes(path)}{_key_query(_key_escapes(query), drop)}"


def redirect_target(source: str, location: bytes) -> str | None:
    """Return where a redirect of `source` leads, in wire form; None when no further request follows from it.

    The bytes of the header are taken as given: those above ASCII are percent-encoded one by one, as browsers do.
    Whether the target's address may be contacted is for the address guard to say, who knows what names resolve to.
    """
    escaped = re.sub(rb"[\x80-\xff]", lambda byte: b"%%%02X" % ord(byte[0]), location).decode("ascii")
    if not escaped.strip("\t\n\f\r "):
        return None
    try:
        return canonicalize(escaped, source)
    except InvalidURL:
        return None


def _plain_parts(url: str) -> re.Match[str] | None:
    """Match a URL that is its own wire form: its address, which is its own key form, and its query."""
    plain = _plain(url)
    return plain if plain and "/." not in url and "xn--" not in url and len(url) <= MAX_HOST else None


def _serialise(url: str, base: str | None) -> str:
    """Return the WHATWG serialisation of an http or https URL without its fragment, user info still in it."""
    try:
        href = normalize_url(url) if base is None else join_url(base, url)
    except ValueError:
        scalar = _scalar_values(url)
        if scalar != url:
            return _serialise(scalar, base)
        raise InvalidURL(f"not a URL: {_shown(url, base)}") from None
    if "#" in href:
        href = href[: href.index("#")]
    if not href.startswith(("http://", "https://")):
        raise InvalidURL(f"neither http nor https: {_shown(url, base)}")
    authority = href.split("/", 3)[2]
    if (len(authority) > MAX_LABEL or ".." in authority or authority[0] == "." or "@" in authority) and not (
        _is_resolvable(authority)
    ):
        raise InvalidURL(f"a host that no name server can know: {_shown(url, base)}")
    return href


def _is_resolvable(authority: str) -> bool:
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        return True
    name = host.partition(":")[0].removesuffix(".")
    return len(name) <= MAX_HOST and all(0 < len(label) <= MAX_LABEL for label in name.split("."))


def _scalar_values(text: str) -> str:
    """Return `text` with lone surrogates replaced by U+FFFD, as WHATWG URL reads a string."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _shown(url: str, base: str | None) -> str:
    """Return the input for a message: user info hidden, cut to a readable length."""
    shown = re.sub(r"(?<=//)[^/?#@]*@", "***@", url[:200])
    return repr(shown) if base is None else f"{shown!r} on {base[:200]!r}"


def _key_authority(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    host = host.replace(".:", ":").removesuffix(".")
    return f"{xxhash.xxh3_64_hexdigest(user.encode())}@{host}" if at else host


def _key_escapes(text: str) -> str:
    return _needs_escaping(_key_escape, text)


def _key_escape(found: re.Match[str]) -> str:
    digits: str | None = found[1]
    if digits is None:
        return f"%{ord(found[0]):02X}"
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED else f"%{digits.upper()}"


def _key_query(query: str, drop: frozenset[str]) -> str:
    """Return `?` and what the key keeps of an escaped query, or nothing when it keeps nothing."""
    names, prefixes, _ = _dropped(drop)
    kept = []
    for piece in query.replace("+", "%20").split("&"):
        name = piece.partition("=")[0]
        folded = name.lower()
        if piece and folded not in names and not folded.startswith(prefixes):
            kept.append((name, piece))
    kept.sort(key=_name_of)
    return "?" + "&".join([piece for _, piece in kept]) if kept else ""


def _name_of(item: tuple[str, str]) -> str:
    return item[0]


@lru_cache(maxsize=16)
def _dropped(drop: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...], re.Pattern[str]]:
    """Return the whole names, the prefixes, and the pattern of `;name=value` with either."""
    names = frozenset(name.lower() for name in drop if not name.endswith("*"))
    prefixes = tuple(sorted(name[:-1].lower() for name in drop if name.endswith("*")))
    either = "|".join([*map(re.escape, sorted(names)), *(re.escape(prefix) + "[^=;/?&]*" for prefix in prefixes)])
    return names, prefixes, re.compile(rf";(?:{either or '(?!)'})=[^;/?&]*", re.IGNORECASE)
