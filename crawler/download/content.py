"""Content-Encoding undone within a limit: a small reply may not become a large page.

Codings are those of RFC 9110 8.4.1: gzip (x-gzip), deflate (zlib or raw, as servers send it), br and zstd, in any
order of several.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Protocol

import brotli
import zstandard

ACCEPTED = "gzip, deflate, br, zstd"
MAX_CODINGS = 4
STEP = 1024
"""Bytes of coded input that are decoded at once, so that a bomb is noticed after a bounded step: zstd's best ratio is
about 1:32,768, which makes 32 MB of one step."""
ZSTD_WINDOW = 8 * 1024**2
"""Bytes; what RFC 9659 allows in a response."""


class DecodeFailed(Exception):
    """The body is not in the coding that its header names."""


class _Decoder(Protocol):
    def feed(self, data: bytes, limit: int) -> bytes:
        """Decode ``data``, giving at most about ``limit`` bytes."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the coded data has come to its end."""
        ...


class _Zlib:
    """gzip and deflate; members may follow each other, and deflate may come raw."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inner = zlib.decompressobj(wbits)
        self._started = False

    def feed(self, data: bytes, limit: int) -> bytes:
        if not self._started and self._wbits == zlib.MAX_WBITS and data[0] & 0x0F != 8:
            self._wbits = -zlib.MAX_WBITS
            self._inner = zlib.decompressobj(self._wbits)
        self._started = True
        out = self._inner.decompress(self._inner.unconsumed_tail + data, limit)
        while self._inner.eof and self._inner.unused_data.startswith(b"\x1f\x8b") and len(out) < limit:
            rest = self._inner.unused_data
            self._inner = zlib.decompressobj(self._wbits)
            out += self._inner.decompress(rest, limit - len(out))
        return out

    @property
    def ended(self) -> bool:
        return self._inner.eof


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    def feed(self, data: bytes, limit: int) -> bytes:
        out = bytes(self._inner.process(data, output_buffer_limit=limit))
        while not self._inner.can_accept_more_data() and len(out) < limit:
            out += self._inner.process(b"", output_buffer_limit=limit - len(out))
        return out

    @property
    def ended(self) -> bool:
        return bool(self._inner.is_finished())


class _Zstd:
    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()

    def feed(self, data: bytes, limit: int) -> bytes:  # noqa: ARG002 - STEP bounds what one call gives
        return b"" if self._inner.eof else self._inner.decompress(data)

    @property
    def ended(self) -> bool:
        return self._inner.eof


def _decoder(coding: str) -> _Decoder | None:
    match coding:
        case "gzip" | "x-gzip":
            return _Zlib(16 + zlib.MAX_WBITS)
        case "deflate":
            return _Zlib(zlib.MAX_WBITS)
        case "br":
            return _Brotli()
        case "zstd":
            return _Zstd()
        case _:
            return None


def codings(headers: Iterable[bytes]) -> list[str]:
    """The codings of one or more Content-Encoding header values, in the order in which they were applied; identity
    left out.
    """
    names = b",".join(headers).decode("latin-1").lower().split(",")
    return [name for part in names if (name := part.strip()) and name != "identity"]


def decode(body: bytes, applied: list[str], limit: int) -> tuple[bytes, str]:
    """Undo ``applied`` (last one first), giving at most ``limit`` bytes and why that is not all: `length` (more was
    there), `coding` (the coded data breaks off), '' when it is.

    A body that is plainly text is taken as it is: servers that label a page falsely do exist. Raises DecodeFailed
    when a coding is unknown, there are too many, or the data breaks before anything was decoded.
    """
    if len(applied) > MAX_CODINGS:
        raise DecodeFailed(f"{len(applied)} content codings")
    cut = ""
    for coding in reversed(applied):
        decoder = _decoder(coding)
        try:
            if decoder is None:
                raise DecodeFailed(f"unknown content coding {coding!r}")
            body, cut = _run(decoder, coding, body, limit)
        except DecodeFailed:
            if not _is_text(body):
                raise
    return body, cut


def _run(decoder: _Decoder, coding: str, body: bytes, limit: int) -> tuple[bytes, str]:
    out = bytearray()
    try:
        for start in range(0, len(body), STEP):
            out += decoder.feed(body[start : start + STEP], limit + 1 - len(out))
            if len(out) > limit:
                return bytes(out[:limit]), "length"
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        if not out:
            raise DecodeFailed(f"body is not {coding}: {error}") from error
        return bytes(out), "coding"
    if body and not out and not decoder.ended:
        raise DecodeFailed(f"body is not {coding}, or is cut off at its start")
    return bytes(out), "" if decoder.ended else "coding"


def _is_text(body: bytes) -> bool:
    """Whether a body begins like a page: what is coded has bytes early on that no text has."""
    head = body[:256]
    return not any(byte < 9 or 13 < byte < 32 for byte in head) and head.lstrip()[:1] in (b"<", b"{", b"[", b"")
