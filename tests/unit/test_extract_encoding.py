"""From bytes to text: html5lib's encoding tests, WPT's query encodings, our Content-Type cases."""

from __future__ import annotations

import codecs
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.extract import decode
from crawler.extract.charsets import decode_as, encode_query
from crawler.extract.labels import NAMES, encoding_of
from crawler.extract.prescan import declared_encoding
from tests.unit.cases import CASES, own, parameters

# The cases name Python's or a library's codec; `decode` gives the standard's name. "fallback" is what the body is in.
WHATWG_NAME = {"gb18030": "gbk", "cp932": "shift_jis", "utf-16": "utf-16le", "fallback": "utf-8"}


@pytest.mark.parametrize("case", own("charset-header.json"))
def test_content_type(case: dict[str, Any]) -> None:
    text, name = decode("<html><p>\u00e9".encode(), case["content_type"])
    assert name == WHATWG_NAME.get(case["expect"], case["expect"])
    text.encode()


def _html5lib(name: str) -> list[Any]:
    path = CASES / "html5lib-tests/encoding" / name
    if not path.is_file():
        return []
    cases = []
    for number, part in enumerate(path.read_bytes().split(b"#data\n")[1:], 1):
        data, _, rest = part.partition(b"\n#encoding\n")
        expected = rest.splitlines()[0].decode().lower()
        cases.append(pytest.param(data, expected, id=f"{name}-{number}"))
    return cases


# By name: what the test asks for, and why we answer otherwise.
HTML5LIB_DEVIATIONS = {
    **{
        f"tests1.dat-{number}": "the declaration stands beyond the 1024 bytes of the prescan"
        for number in range(48, 54)
    },
    "tests1.dat-54": "the declaration is written by a script; or stands beyond the prescan",
}


@pytest.mark.parametrize(
    ("data", "expected"),
    parameters([*_html5lib("tests1.dat"), *_html5lib("tests2.dat"), *_html5lib("test-yahoo-jp.dat")], width=2),
)
def test_html5lib(request: pytest.FixtureRequest, data: bytes, expected: str) -> None:
    marked = data.startswith(codecs.BOM_UTF8)
    found = decode(data, None)[1] if marked else declared_encoding(data) or "windows-1252"
    if request.node.callspec.id in HTML5LIB_DEVIATIONS:
        assert found == "windows-1252"
    else:
        assert found == expected


def _query_cases() -> list[Any]:
    path = CASES / "wpt-url/wpt/percent-encoding.json"
    if not path.is_file():
        return []
    cases = [case for case in json.loads(path.read_text("utf-8")) if isinstance(case, dict)]
    return [(case["input"], label, out) for case in cases for label, out in case["output"].items() if label != "utf-8"]


# Python's codecs against the standard's tables.
QUERY_DEVIATIONS = {("\x0eA", "iso-2022-jp"), ("\ue5e5", "gb18030")}


@pytest.mark.parametrize(("query", "label", "expected"), parameters(_query_cases(), width=3))
def test_query_encoding(query: str, label: str, expected: str) -> None:
    name = encoding_of(label)
    assert name is not None
    if (query, label) not in QUERY_DEVIATIONS:
        assert encode_query(query, name) == expected


def test_query_keeps_what_is_ascii() -> None:
    assert (
        encode_query("a=%FC&b=[x]'\"<\u00fc\u20ac\u4e00", "windows-1252") == "a=%FC&b=[x]%27%22%3C%FC%80%26%2319968%3B"
    )
    assert encode_query("q=\u00fc", "utf-16le") == "q=\u00fc"


@pytest.mark.parametrize(
    ("body", "content_type", "text", "name"),
    [
        (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=cp1251", "\u00e9", "utf-8"),
        ("\u00e9".encode("utf-16"), "text/html; charset=utf-8", "\u00e9", "utf-16le"),
        (b"\xfe\xff\x00\xe9", None, "\u00e9", "utf-16be"),
        (b"<p>\xe9", None, "<p>\u00e9", "windows-1252"),
        (b"<p>\xc3\xa9", None, "<p>\u00e9", "utf-8"),
        (b"<p>\xc3\xa9\xc3", None, "<p>\u00e9\ufffd", "utf-8"),
        (b"\x80\x81", "text/html;charset=latin1", "\u20ac\x81", "windows-1252"),
        (b"\xaf", "text/html; charset=x-user-defined", "\uf7af", "x-user-defined"),
        (b"abc", "text/html; charset=iso-2022-kr", "\ufffd", "replacement"),
        (b"", "text/html; charset=replacement", "", "replacement"),
        (b"a\0b", "text/html; charset=utf-8", "a\ufffdb", "utf-8"),
        (b"\xed\xa0\xbd", "text/html; charset=utf-8", "\ufffd\ufffd\ufffd", "utf-8"),
        (b"\x00\xd8a\x00", "text/html; charset=utf-16", "\ufffda", "utf-16le"),
        (b"<meta charset=utf-16>\xc3\xa9", "text/html", "<meta charset=utf-16>\u00e9", "utf-8"),
        (b"<meta charset=x-user-defined>\xe9", "text/html", "<meta charset=x-user-defined>\u00e9", "windows-1252"),
        (
            b'<?xml version="1.0" encoding="utf-16"?>\xc3\xa9',
            None,
            '<?xml version="1.0" encoding="utf-16"?>\u00e9',
            "utf-8",
        ),
        (
            b'<?xml version="1.0" encoding="koi8-r"?>\xc1',
            None,
            '<?xml version="1.0" encoding="koi8-r"?>\u0430',
            "koi8-r",
        ),
        (b"\x95\x5c", 'text/html; charset="Shift_JIS"', "\u8868", "shift_jis"),
        (b"\xc3\xa9", "text/html, text/html; charset=utf-8", "\u00e9", "utf-8"),
        (b"\xc3\xa9", "text/html; charset=unicode_escape", "\u00e9", "utf-8"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=koi8-u>\xae", None, None, "koi8-u"),
    ],
)
def test_decode(body: bytes, content_type: str | None, text: str | None, name: str) -> None:
    decoded, found = decode(body, content_type)
    assert found == name
    assert text is None or decoded == text


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        ("привет, это обычный русский текст без объявления кодировки. " * 4, "cp1251", "windows-1251"),
        ("これは日本語のテキストです。" * 8, "shift_jis", "shift_jis"),
        ("中文网页内容测试" * 8, "gbk", "gb18030"),
        ("été à la plage, déjà vu, garçon, çà et là. " * 8, "latin-1", "windows-1252"),
    ],
)
def test_what_declares_nothing_is_detected(text: str, codec: str, name: str) -> None:
    assert decode(text.encode(codec), "text/html") == (text, name)


def test_utf8_with_a_scar_is_utf8() -> None:
    assert decode("\u00e9".encode() * 100 + b"\xe9", None)[1] == "utf-8"


def test_every_label_leads_to_a_name() -> None:
    assert all(encoding_of(name) is not None for name in NAMES)
    assert encoding_of(" UTF8\n") == "utf-8"
    for codec in ("hex", "rot13", "idna", "punycode", "unicode_escape", "undefined", "mbcs", "cp037", ""):
        assert encoding_of(codec) is None


@given(st.binary(max_size=200), st.sampled_from(NAMES))
def test_no_bytes_raise_or_leave_surrogates(body: bytes, name: str) -> None:
    decode_as(body, name).encode()
    text, _ = decode(body, f"text/html; charset={name}")
    text.encode()
    assert "\0" not in text


@given(st.binary(max_size=200), st.text(max_size=40))
def test_no_header_raises(body: bytes, header: str) -> None:
    decode(body, header)
    decode(b"<meta charset=" + body, f"text/html; charset={header}")
