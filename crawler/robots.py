"""robots.txt: rules from bytes, verdicts on URLs (RFC 9309, by Protego).

What to do when there is no robots.txt to parse (4xx, 5xx, unreachable) is the middleware's business. Around Protego
this module decides what the bytes are, where lines end, and whom an agent line binds:

- the first 500 KiB count, cut at a line end (RFC 9309 2.5); HTML and binary bodies hold no rules; a byte order mark is
  skipped; UTF-16 is decoded, since its owner did mean those rules;
- lines end at CR, LF and CRLF only (2.2), not at every character that Python's `splitlines` takes for a line end;
- the product token of an agent line binds the same token of a crawler, whole and without regard to case (2.2.1):
  `mybot/2.0` binds `mybot`, `my` does not.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from protego import Protego
from protego._utils import _quote_path

MAX_BYTES: Final = 500 * 1024
"""Bytes of a body that are parsed: the least that RFC 9309 2.5 asks for."""

MAX_CRAWL_DELAY: Final = 86_400.0
"""Seconds; a longer Crawl-delay is reported as this one, which is above any that a crawl would keep to."""

_SNIFFED = 1024
_BINARY_BYTES = bytes(set(range(0x20)) - set(b"\t\n\r\x0b\x0c\x1b"))
_MAX_BINARY_SHARE = 1 / 32

# Line ends to Python, but not to RFC 9309: escaped, they stay inside their comment or path.
_NOT_LINE_ENDS = {
    ord(char): "".join(f"%{byte:02X}" for byte in char.encode()) for char in "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
}

_agent_line = re.compile(r"[ \t]*user[- ]?agent[ \t]*(?::|[ \t])([^#\r\n]*)", re.IGNORECASE).match
_product = re.compile(r"[A-Za-z0-9_-]+").match
_compatible_product = re.compile(r"mozilla/[^(]*\(compatible;\s*([A-Za-z0-9_-]+)", re.IGNORECASE).match

# Closes every product token given to Protego, which by itself matches prefixes; never part of a token.
_END = ";"


class RobotsRules:
    """The rules of one robots.txt. Verdicts hold for the scheme, host and port it was asked from."""

    __slots__ = ("_protego", "sitemaps")

    def __init__(self, text: str) -> None:
        self._protego = Protego.parse(text)
        self.sitemaps: tuple[str, ...] = tuple(self._protego.sitemaps)
        """Values of the Sitemap lines in their order, as written."""

    def allowed(self, url: str, agent: str) -> bool:
        """Say whether `agent`, a product token or a whole User-Agent header, may fetch `url` (absolute)."""
        return self._protego.can_fetch(url, _token(agent))

    def crawl_delay(self, agent: str) -> float | None:
        """Return the seconds that the agent's own group asks for, at most `MAX_CRAWL_DELAY`; None for none.

        What is not a finite number from zero up counts as not asked for.
        """
        delay = self._protego.crawl_delay(_token(agent))
        return None if delay is None else min(delay, MAX_CRAWL_DELAY)

    def matched(self, url: str, agent: str) -> str:
        """Return the rule that decided, such as `disallow: /private/`, percent-encoded as compared; "" when none did.

        For the fetch log. Reads the internals of the pinned Protego, which keeps this to itself.
        """
        rule_set = self._protego._get_matching_rule_set(_token(agent))  # noqa: SLF001
        path = _quote_path(url)
        if rule_set is None or path == "/robots.txt":
            return ""
        rules = rule_set._rules  # noqa: SLF001
        return next((f"{rule.field}: {rule.value._pattern}" for rule in rules if rule.value.match(path)), "")  # noqa: SLF001


def parse(body: bytes) -> RobotsRules:
    """Return the rules that the body of a robots.txt holds; never raises, whatever the bytes are."""
    text = _decode(_whole_lines(body))
    lines = re.split(r"\r\n|\r|\n", text.translate(_NOT_LINE_ENDS))
    return RobotsRules("\n".join([_with_product_token(line) for line in lines]))


def _whole_lines(body: bytes) -> bytes:
    if len(body) <= MAX_BYTES:
        return body
    cut = body[:MAX_BYTES]
    return cut[: max(cut.rfind(b"\n"), cut.rfind(b"\r")) + 1]


def _decode(body: bytes) -> str:
    """Return the text of a body, "" for HTML and binary; bytes that are not UTF-8 become escapes, as in a URL."""
    wide = _wide_encoding(body)
    if wide:
        text = body.decode(wide, "replace").removeprefix("\ufeff")
        return "" if text.lstrip().startswith("<") else text
    body = _without_bom(body)
    sample = body[:_SNIFFED]
    is_binary = len(sample) - len(sample.translate(None, _BINARY_BYTES)) > len(sample) * _MAX_BINARY_SHARE
    if is_binary or sample.lstrip().startswith(b"<"):
        return ""
    text = body.decode("utf-8", "surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda char: f"%{ord(char[0]) - 0xDC00:02X}", text)


def _wide_encoding(body: bytes) -> str:
    """Return the UTF-16 in which a robots.txt is written, by its mark or by the zeros of its first letters."""
    head = body[:4]
    if head.startswith(codecs.BOM_UTF16_LE) or (head[1::2] == b"\0\0" and head[0::2].isascii() and 0 not in head[0::2]):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE) or (head[0::2] == b"\0\0" and head[1::2].isascii() and 0 not in head[1::2]):
        return "utf-16-be"
    return ""


def _without_bom(body: bytes) -> bytes:
    """Return the body without a UTF-8 byte order mark, or the first bytes of one, as Google's parser skips it."""
    for length in (3, 2, 1):
        if body.startswith(codecs.BOM_UTF8[:length]):
            return body[length:]
    return body


def _with_product_token(line: str) -> str:
    found = _agent_line(line)
    if found is None:
        return line
    value = found[1].strip()
    if value == "*" or value.startswith(("* ", "*\t")):
        return "User-agent: *"
    return f"User-agent: {_token(value.strip('*'))}"


def _token(agent: str) -> str:
    """Return an agent's product token in lower case, closed; of a browser's disguise the token that is `compatible`."""
    found = _compatible_product(agent)
    if found:
        return found[1].lower() + _END
    product = _product(agent.lstrip())
    return (product[0].lower() if product else "") + _END
