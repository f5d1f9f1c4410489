"""Answers that break HTTP's syntax where browsers read on, put in order before aiohttp's strict parser sees them.

A header line that is none is left out, as is a Content-Length that is empty or stands beside chunks; one that is said
twice the same way is said once; what follows a body's declared end is not read. Such a connection is not used again.
Lengths that contradict each other, and everything else, are the parser's to refuse (RFC 9110 8.6, RFC 9112 6.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aiohttp import ClientError
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import set_exception

HEAD_LIMIT: Final = 256 * 1024
"""Bytes of a status line with its header, as browsers accept."""

_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE_END: Final = re.compile(rb"\r?\n")
_STATUS: Final = re.compile(rb"HTTP/\d\.\d (\d{3})")
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*\Z")
_BODILESS: Final = frozenset({204, 304})


class LenientHandler(ResponseHandler):
    """aiohttp's protocol of one connection; sees each head as a whole, and no byte after its body."""

    _head = b""
    _reading_head = False
    _left: int | None = None  # bytes of the body that are still to come, where that was declared

    def set_response_params(self, **params: Any) -> None:
        """A request was sent: its answer's head comes next."""
        self._head, self._reading_head, self._left = b"", True, None
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Pass on what belongs to the answer; without data, aiohttp resumes its parser after a pause."""
        if not data:
            super().data_received(data)
            return
        while self._reading_head and data:
            head, data = self._split(data)
            if head:
                super().data_received(self._in_order(head))
        if self._left is not None:
            if len(data) > self._left:
                data = data[: self._left]
                self.force_close()
            self._left -= len(data)
        if data:
            super().data_received(data)
            if self._exception is not None and self._payload is not None:  # else the reader would wait for its time-out
                set_exception(self._payload, ClientError(str(self._exception)))

    def connection_lost(self, exc: BaseException | None) -> None:
        """A head that broke off is the parser's to judge."""
        if self._head and self._parser is not None:
            super().data_received(self._head)
        super().connection_lost(exc)

    def _split(self, data: bytes) -> tuple[bytes, bytes]:
        """The head, once it is whole or too long to wait for its end, and what follows it."""
        seen = (self._head + data).lstrip(b"\r\n")
        end = _END.search(seen)
        if end is None and len(seen) <= HEAD_LIMIT:
            self._head = seen
            return b"", b""
        self._head = b""
        at = end.end() if end else len(seen)
        return seen[:at], seen[at:]

    def _in_order(self, head: bytes) -> bytes:
        status = _STATUS.match(head)
        code = int(status[1]) if status else 0
        self._reading_head = 100 <= code < 200 and code != 101
        if self._reading_head:
            return head
        written = _LINE_END.split(head.rstrip(b"\r\n"))
        fields = self._with_one_length(list(_fields(written[1:])))
        if code in _BODILESS or self._skip_payload:
            self._left = 0
        return head if fields == written[1:] else b"\r\n".join((written[0], *fields, b"", b""))

    def _with_one_length(self, fields: list[bytes]) -> list[bytes]:
        lengths = [field for field in fields if _is_named(field, b"content-length")]
        values = {value.strip() for field in lengths for value in field.partition(b":")[2].split(b",")}
        if not values:
            return fields
        others = [field for field in fields if field not in lengths]
        if any(_is_named(field, b"transfer-encoding") and b"chunked" in field.lower() for field in others):
            self.force_close()
            return others
        if len(values) > 1:
            return fields
        value = values.pop()
        self._left = int(value) if value.isdigit() else None
        if len(lengths) == 1 and value and b"," not in lengths[0]:
            return fields
        self.force_close()
        return [*others, b"Content-Length: " + value] if value else others


def _fields(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Those lines that are header fields, or the continuation of one."""
    is_field = False
    for line in lines:
        if not line.startswith((b" ", b"\t")):
            name, colon, _ = line.partition(b":")
            is_field = bool(colon) and _NAME.match(name) is not None
        if is_field:
            yield line


def _is_named(field: bytes, name: bytes) -> bool:
    return field.partition(b":")[0].rstrip(b" \t").lower() == name
