"""From bytes to text, as browsers do it: byte order mark, HTTP charset, what the page declares, then detection.

https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding. Only labels of the Encoding
Standard count, so that no header can run one of Python's other codecs.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from resiliparse.parse.encoding import detect_encoding

from crawler.extract.charsets import decode_as
from crawler.extract.labels import encoding_of
from crawler.extract.prescan import declared_encoding

FALLBACK: Final = "windows-1252"

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16le"), (codecs.BOM_UTF16_BE, "utf-16be"))
_charset = re.compile(r";[\t\n\r ]*charset=(?:\"([^\"]*)\"?|([^;,]*))", re.IGNORECASE).search

# Fewer bytes above ASCII than this are no ground for a statistical guess.
_MIN_EVIDENCE = 32
_DETECTION_BYTES = 65_536
_HIGH = bytes(range(0x80, 0x100))


def decode(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Return the text of a body and the WHATWG name, in lower case, of the encoding it was read in.

    `content_type` is the whole header. Never raises; the text holds no lone surrogate and no NUL, which became U+FFFD
    as what could not be decoded did.
    """
    text, name = decode_markup(body, content_type)
    return text.replace("\0", "\ufffd"), name


def decode_markup(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Return what `decode` does, NUL characters still in it, for a parser that knows what they mean."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return decode_as(body[len(mark) :], name), name
    declared = header_encoding(content_type) or declared_encoding(body)
    name = declared or _detected(body)
    return decode_as(body, name), name


def header_encoding(content_type: str | None) -> str | None:
    """Return the encoding that a Content-Type header names, None when it names none that exists."""
    found = _charset(content_type or "")
    return encoding_of(found[1] if found[1] is not None else found[2]) if found else None


def _detected(body: bytes) -> str:
    """Return the likeliest encoding of a body that declares none."""
    try:
        # Not final: a body that was cut off within a character is still UTF-8, if it held whole ones before.
        _, read = codecs.utf_8_decode(body, "strict", False)
    except UnicodeDecodeError:
        return _guessed(body)
    return FALLBACK if read < len(body) and body[:read].isascii() else "utf-8"


def _guessed(body: bytes) -> str:
    high = len(body) - len(body.translate(None, _HIGH))
    if high < _MIN_EVIDENCE:
        return FALLBACK
    text = body.decode("utf-8", "replace")
    # Ten right sequences for one wrong: UTF-8 with a scar, which no other encoding looks like.
    if text.count("\ufffd") * 20 < high:
        return "utf-8"
    guess = detect_encoding(body, max_len=_DETECTION_BYTES, html5_compatible=False)
    name = encoding_of(guess) if guess else None
    return FALLBACK if name is None or name in ("utf-8", "replacement") else name
