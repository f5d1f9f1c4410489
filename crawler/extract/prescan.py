"""The encoding that an HTML page declares inside itself, found before it is parsed.

HTML Standard 13.2.3.2, "prescan a byte stream to determine its encoding", over the first 1024 bytes.
"""

from __future__ import annotations

import re
from typing import Final

from crawler.extract.labels import encoding_of

PRESCAN_BYTES: Final = 1024

_SPACE = rb"\t\n\f\r "
_next_tag = re.compile(rb"<(?:(!--)|(meta)[\t\n\f\r /]|/?([A-Za-z])|[!/?])", re.IGNORECASE).search
_name_end = re.compile(rb"[\t\n\f\r >]").search
_attribute = re.compile(
    rb"[%(s)s/]*(?:(?P<end>>)|(?P<name>[^%(s)s/>][^%(s)s/>=]*)"
    rb"(?:[%(s)s]*=[%(s)s]*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^%(s)s>\"'][^%(s)s>]*)?))?)"
    % {b"s": _SPACE}
).match
_content_charset = re.compile(
    rb"charset[%(s)s]*=[%(s)s]*(?:\"([^\"]*)\"|'([^']*)'|([^%(s)s;\"'][^%(s)s;]*))" % {b"s": _SPACE}, re.IGNORECASE
).search
_xml_encoding = re.compile(rb"<\?xml[^>]*?encoding[\x00-\x20]*=[\x00-\x20]*([\"'])([^\x00-\x20\"'>]*)\1").match


def declared_encoding(body: bytes) -> str | None:
    """Return the WHATWG name of the encoding a page declares in a meta element or XML declaration, or None."""
    head = body[:PRESCAN_BYTES]
    if head.startswith(b"<\0?\0x\0"):
        return "utf-16le"
    if head.startswith(b"\0<\0?\0x"):
        return "utf-16be"
    position = 0
    while found := _next_tag(head, position):
        if found[1]:
            # `<!-->` is a whole comment: its dashes open and close it.
            position = head.find(b"-->", found.start() + 2) + 3
            if position < 3:
                break
        elif found[2] or found[3]:
            position = found.end() - 1 if found[2] else _end_of_name(head, found.end())
            attributes, position = _attributes(head, position)
            name = _meta_encoding(attributes) if found[2] else None
            if name:
                return name
        else:
            position = head.find(b">", found.start()) + 1
            if position == 0:
                break
    xml = _xml_encoding(head)
    return _as_declared(xml[2]) if xml else None


def _end_of_name(head: bytes, position: int) -> int:
    end = _name_end(head, position)
    return end.start() if end else len(head)


def _attributes(head: bytes, position: int) -> tuple[dict[bytes, bytes], int]:
    """Return a tag's attributes, the first of each name, and where the tag ends; none of a tag that does not end."""
    attributes: dict[bytes, bytes] = {}
    while found := _attribute(head, position):
        position = found.end()
        if found["end"]:
            return attributes, position
        value = found["double"] or found["single"] or found["bare"] or b""
        attributes.setdefault(found["name"].lower(), value)
    return {}, len(head)


def _meta_encoding(attributes: dict[bytes, bytes]) -> str | None:
    if b"charset" in attributes:
        return _as_declared(attributes[b"charset"])
    if attributes.get(b"http-equiv", b"").lower() != b"content-type":
        return None
    found = _content_charset(attributes.get(b"content", b""))
    return _as_declared(found[1] or found[2] or found[3] or b"") if found else None


def _as_declared(label: bytes) -> str | None:
    """Return the encoding of a label that stands in the page: it was read as ASCII, so it cannot be UTF-16."""
    name = encoding_of(label.decode("latin-1"))
    if name in ("utf-16le", "utf-16be"):
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name
