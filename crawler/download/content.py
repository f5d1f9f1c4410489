"""Content-Encoding undone while the bytes come in, never beyond a limit: a small reply may not become a large page.

Codings are those of RFC 9110 8.4.1: gzip (x-gzip), deflate (zlib or raw, as servers send it), br and zstd, in any
order of several."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Protocol

import brotli
import zstandard

ACCEPTED = "gzip, deflate, br, zstd"
MAX_CODINGS = 4


class DecodeFailed(Exception):
    """The body is not in the coding that its header names."""


class _Decoder(Protocol):
    def feed(self, data: bytes, limit: int) -> bytes:
        """Decode ``data``, giving at most about ``limit`` bytes."""
        ...


class _Zlib:
    """gzip and deflate; members may follow each other, and deflate may come raw."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inner = zlib.decompressobj(wbits)
        self._started = False

    def feed(self, data: bytes, limit: int) -> bytes:
        if not self._started and data and self._wbits == zlib.MAX_WBITS and data[0] & 0x0F != 8:
            self._wbits = -zlib.MAX_WBITS
            self._inner = zlib.decompressobj(self._wbits)
        self._started = self._started or bool(data)
        out = self._inner.decompress(data, limit)
        while self._inner.eof and self._inner.unused_data.startswith(b"\x1f\x8b") and len(out) < limit:
            rest = self._inner.unused_data
            self._inner = zlib.decompressobj(self._wbits)
            out += self._inner.decompress(rest, limit - len(out))
        return out


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    def feed(self, data: bytes, limit: int) -> bytes:
        return bytes(self._inner.process(data, output_buffer_limit=limit))


class _Zstd:
    """Frames are decoded in slices of the input so that a bomb is noticed after a bounded step."""

    STEP = 1024  # zstd's best ratio is about 1:32768, so one slice gives at most some 32 MB

    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()

    def feed(self, data: bytes, limit: int) -> bytes:
        out = bytearray()
        for start in range(0, len(data), self.STEP):
            if self._inner.eof or len(out) > limit:
                break
            out += self._inner.decompress(data[start : start + self.STEP])
        return bytes(out)


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


def decode(body: bytes, applied: list[str], limit: int) -> tuple[bytes, bool]:
    """Undo ``applied`` (last one first), giving at most ``limit`` bytes and whether more was there.

    A body that does not even begin as its coding says is taken as it is: servers that label a plain page do exist.
    Raises DecodeFailed when the coding is unknown, nested too deep, or the data breaks before anything was decoded.
    """
    if len(applied) > MAX_CODINGS:
        raise DecodeFailed(f"{len(applied)} content codings")
    over = False
    for coding in reversed(applied):
        decoder = _decoder(coding)
        if decoder is None:
            raise DecodeFailed(f"unknown content coding {coding!r}")
        if coding in ("gzip", "x-gzip") and not body.startswith(b"\x1f\x8b"):
            continue
        body, over = _run(decoder, coding, body, limit)
    return body, over


def _run(decoder: _Decoder, coding: str, body: bytes, limit: int) -> tuple[bytes, bool]:
    try:
        out = decoder.feed(body, limit + 1)
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        raise DecodeFailed(f"body is not {coding}: {error}") from error
    if body and not out:
        raise DecodeFailed(f"body is not {coding}, or is cut off at its start")
    return out[:limit], len(out) > limit
