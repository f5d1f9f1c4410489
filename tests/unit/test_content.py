"""Content codings: every kind, in any order, falsely labelled, broken off, and as bombs."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from crawler.download.content import MAX_CODINGS, DecodeFailed, codings, decode

PAGE = b"<!doctype html><title>t</title>" + b"".join(b"<p>%d paragraph %d</p>" % (n, n * n) for n in range(4000))
LIMIT = 10_000_000


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("coding", PACKERS)
def test_each_coding_is_undone(coding: str) -> None:
    assert decode(PACKERS[coding](PAGE), [coding], LIMIT) == (PAGE, "")


@given(st.lists(st.sampled_from(sorted(PACKERS)), max_size=MAX_CODINGS), st.binary(max_size=3000))
def test_any_sequence_of_codings_is_undone_in_the_opposite_order(applied: list[str], data: bytes) -> None:
    packed = data
    for coding in applied:
        packed = PACKERS[coding](packed)
    assert decode(packed, applied, LIMIT) == (data, "")


def test_deflate_may_come_raw_and_gzip_in_members() -> None:
    assert decode(raw_deflate(PAGE), ["deflate"], LIMIT) == (PAGE, "")
    members = b"".join(gzip.compress(PAGE[at : at + 50_000]) for at in range(0, len(PAGE), 50_000))
    assert decode(members, ["gzip"], LIMIT) == (PAGE, "")
    assert decode(gzip.compress(PAGE) + b"junk behind the end", ["gzip"], LIMIT) == (PAGE, "")


@pytest.mark.parametrize("coding", [*PACKERS, "none", "utf-8", "compress"])
def test_a_page_that_was_never_coded_is_taken_as_it_is(coding: str) -> None:
    assert decode(PAGE, [coding], LIMIT) == (PAGE, "")


@pytest.mark.parametrize("coding", [*PACKERS, "compress"])
def test_noise_is_refused_by_the_name_of_its_coding(coding: str) -> None:
    with pytest.raises(DecodeFailed, match=coding):
        decode(b"\x00\x01\xff\xfe\x02" * 100, [coding], LIMIT)


def test_more_codings_than_anyone_means_are_refused() -> None:
    with pytest.raises(DecodeFailed, match="5 content codings"):
        decode(PAGE, ["gzip"] * 5, LIMIT)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_what_breaks_off_is_marked(coding: str) -> None:
    packed = PACKERS[coding](PAGE)
    body, cut = decode(packed[: len(packed) * 2 // 3], [coding], LIMIT)
    assert cut == "coding"
    assert PAGE.startswith(body)
    assert len(body) > 1000


def test_what_goes_wrong_late_keeps_what_was_right() -> None:
    packed = bytearray(gzip.compress(PAGE))
    packed[-5:] = b"\xff" * 5  # the checksum
    body, cut = decode(bytes(packed), ["gzip"], LIMIT)
    assert cut == "coding"
    assert PAGE.startswith(body)


@pytest.mark.parametrize("coding", PACKERS)
def test_no_more_than_the_limit_is_decoded(coding: str) -> None:
    bomb = PACKERS[coding](bytes(30_000_000))
    body, cut = decode(bomb, [coding], 1_000_000)
    assert (body == bytes(1_000_000), cut) == (True, "length")
    assert decode(PACKERS[coding](bytes(1000)), [coding], 1000) == (bytes(1000), "")


def test_an_empty_body_in_a_coding_is_empty() -> None:
    assert decode(gzip.compress(b""), ["gzip"], LIMIT) == (b"", "")


def test_codings_are_read_from_all_headers_in_order() -> None:
    assert codings([b"gzip, BR", b" identity ,zstd,, "]) == ["gzip", "br", "zstd"]
    assert codings([]) == []
