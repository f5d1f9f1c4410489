"""Decoding and query encoding by the WHATWG Encoding Standard, on Python's codecs.

Where Python's tables leave a byte undefined and the standard does not, the standard's value is filled in: C1 controls
in the Windows code pages, and the few of `_FILLED`. Multi-byte codecs are Python's nearest; what they cannot read
becomes U+FFFD. Nothing here raises on any bytes, and no text that comes out holds a lone surrogate.
"""

from __future__ import annotations

import codecs
from functools import lru_cache
from urllib.parse import quote

_MULTI_BYTE = {
    "utf-8": "utf-8",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "euc-jp": "euc_jp",
    "iso-2022-jp": "iso2022_jp",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
}
_SINGLE_BYTE = {
    "ibm866": "cp866",
    "iso-8859-8-i": "iso-8859-8",
    "macintosh": "mac_roman",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
}
_FILLED = {"koi8-u": {0xAE: "\u045e", 0xBE: "\u040e"}, "windows-1255": {0xCA: "\u05ba"}}

# Forms and URLs are written in UTF-8 where the document's own encoding cannot be written (4.3, output encoding).
_OUTPUT_UTF8 = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})

# What a query keeps as it is: everything printable but the special-query percent-encode set (WHATWG URL 1.3).
_QUERY_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "\"#<>'")


def decode_as(body: bytes, name: str) -> str:
    """Return the text of `body` in the encoding of that WHATWG name; what is not text in it becomes U+FFFD."""
    if name == "replacement":
        return "\ufffd" if body else ""
    codec = _MULTI_BYTE.get(name)
    if codec is not None:
        return body.decode(codec, "replace")
    return codecs.charmap_decode(body, "replace", _table(name))[0]


def encode_query(query: str, name: str) -> str:
    """Return a URL's query percent-encoded in a document's encoding (WHATWG URL 1.3, percent-encode after encoding).

    A character that the encoding lacks becomes its numeric character reference. The result is ASCII; escapes that
    stood in the query stand in it unchanged.
    """
    if name in _OUTPUT_UTF8:
        return query
    codec = _MULTI_BYTE.get(name)
    if codec is not None:
        octets = b"".join([_encoded(char, codec) for char in query])
    else:
        reverse = _reverse_table(name)
        octets = b"".join([reverse.get(char) or _reference(char) for char in query])
    return quote(octets, safe=_QUERY_SAFE)


def _encoded(char: str, codec: str) -> bytes:
    try:
        return char.encode(codec)
    except UnicodeEncodeError:
        return _reference(char)


def _reference(char: str) -> bytes:
    return f"%26%23{ord(char)}%3B".encode()


@lru_cache(maxsize=64)
def _table(name: str) -> str:
    """Return the 256 characters of a single-byte encoding; U+FFFD where the standard has none."""
    if name == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    codec = _SINGLE_BYTE.get(name, name)
    table = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    if name.startswith("windows-"):
        table = [chr(byte) if char == "\ufffd" and byte < 0xA0 else char for byte, char in enumerate(table)]
    for byte, char in _FILLED.get(name, {}).items():
        table[byte] = char
    return "".join(table)


@lru_cache(maxsize=64)
def _reverse_table(name: str) -> dict[str, bytes]:
    return {char: bytes([byte]) for byte, char in enumerate(_table(name)) if char != "\ufffd"}
