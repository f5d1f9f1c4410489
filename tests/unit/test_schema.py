"""Schema version 1: every line has the same keys and types, and no string that a reader chokes on."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.errors import BadInput
from crawler.storage import schema

NOW = 1_790_000_000.25
CORPUS_MD = Path(__file__).parents[2] / "docs" / "corpus.md"


def document(**changes: Any) -> schema.Line:
    facts: dict[str, Any] = {
        "url": "http://a.test/",
        "key": -2,
        "visit": 0,
        "crawl_id": "news",
        "worker": "w-1",
        "text": "Hello",
        "fetched_at": NOW,
        "added": NOW + 1,
    }
    return schema.document(**facts | changes)


def test_a_document_has_every_key_and_passes_its_own_check() -> None:
    line = document(title="Hi", status=200)
    assert list(line) == ["id", "text", "url", "date", "source", "added", "metadata"]
    assert list(line["metadata"]) == list(schema.METADATA)
    assert line["date"] == line["metadata"]["fetched_at"] == "2026-09-21T14:13:20.250Z"
    assert line["metadata"]["text_chars"] == 5
    assert schema.check(schema.encode(line)) == []


@pytest.mark.case("W01")
@given(
    st.text(alphabet=st.characters(codec=None, exclude_categories=[])), st.floats(allow_nan=True, allow_infinity=True)
)
def test_any_text_and_number_becomes_a_line_that_any_reader_takes(text: str, score: float) -> None:
    encoded = schema.encode(document(text=text, title=text, lang_score=score))
    assert encoded.count(b"\n") == 1
    assert b":NaN" not in encoded
    assert b":null" not in encoded.replace(b" ", b"")
    line = json.loads(encoded)
    assert schema.check(encoded) == []
    assert "\0" not in line["text"]
    assert not re.search("[\ud800-\udfff]", line["text"])


def test_a_pair_of_surrogates_becomes_its_character_and_a_lone_one_a_mark() -> None:
    assert schema.clean("\ud83d\ude00 \ud83d x \ude00\0") == "\U0001f600 \ufffd x \ufffd\ufffd"


def test_the_id_is_the_same_at_every_replay_and_differs_by_key_crawl_visit_and_ordinal() -> None:
    ids = {
        schema.document_id(key, crawl, visit, ordinal)
        for key in (1, -1)
        for crawl in ("a", "b")
        for visit in (0, 1)
        for ordinal in (0, 1)
    }
    assert len(ids) == 16
    assert document(added=1.0)["id"] == document(added=2.0, text="other")["id"]


@pytest.mark.parametrize(
    "changes",
    [{"colour": "red"}, {"status": "200"}, {"status": True}, {"truncated": 1}, {"title": None}, {"lang_score": "high"}],
)
def test_a_field_that_the_schema_does_not_have_is_refused_by_name(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(changes))):
        document(**changes)


def test_an_unknown_score_keeps_its_type() -> None:
    assert document(lang_score=math.nan)["metadata"]["lang_score"] == -1.0
    assert type(document(lang_score=1)["metadata"]["lang_score"]) is float


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("id",), "xyz", "id"),
        (("text",), None, "text"),
        (("url",), "ftp://a.test/", "url"),
        (("date",), "", "date"),
        (("added",), "2026-09-21", "added"),
        (("source",), "other", "source"),
        (("metadata",), [], "metadata"),
        (("metadata", "status"), "200", "status"),
        (("metadata", "status"), None, "status"),
        (("metadata", "truncated"), 0, "truncated"),
        (("metadata", "simhash"), "123", "simhash"),
        (("metadata", "title"), "a\0b", "NUL"),
        (("metadata", "last_modified"), "Mon, 21 Sep 2026", "last_modified"),
        (("metadata", "colour"), "red", "colour"),
        (("colour",), "red", "colour"),
    ],
)
def test_check_names_what_is_wrong(path: tuple[str, ...], value: Any, says: str) -> None:
    line = document()
    at = line
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    assert any(says in fault for fault in schema.check(json.dumps(line).encode()))


@pytest.mark.parametrize("name", ["id", "url", "metadata"])
def test_check_names_what_is_missing(name: str) -> None:
    line = document()
    del line[name]
    assert any(name in fault for fault in schema.check(schema.encode(line)))


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"text": "\\ud83d"}', b'{"x": NaN}'])
def test_check_takes_nothing_that_is_not_a_json_object(line: bytes) -> None:
    assert schema.check(line)


def test_a_fetch_log_line_has_every_key_and_passes_its_own_check() -> None:
    entry = schema.fetch_entry(url="http://a.test/", key=5, logged_at=NOW, status=404, kind="not-found")
    assert list(entry) == list(schema.FETCHLOG)
    assert entry["url_key"] == "0000000000000005"
    assert schema.check_fetch_entry(schema.encode(entry)) == []
    entry["status"] = "404"
    assert any("status" in fault for fault in schema.check_fetch_entry(schema.encode(entry)))


def test_times_have_milliseconds_so_that_arrow_reads_them_as_strings() -> None:
    assert schema.timestamp(0) == "1970-01-01T00:00:00.000Z"


def test_the_documentation_names_every_key() -> None:
    text = CORPUS_MD.read_text(encoding="utf-8")
    assert [name for name in (*schema.METADATA, *schema.FETCHLOG) if f"`{name}`" not in text] == []
