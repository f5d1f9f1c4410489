"""The lines of the corpus: what a document and a fetch-log entry look like, made and checked in one place.

Every line of every shard has the same keys with values of the same types, so that no reader's type inference can
differ between two shards: an unknown string is "", an unknown number -1, an unknown time "". There is no null, no
NaN, no NUL and no lone surrogate. Fingerprints are 16 hex digits, because a uint64 becomes a float in some readers.
Times are UTC with milliseconds; the milliseconds also keep readers that guess types from making timestamps of a
column whose unknown values are "".
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from crawler.errors import BadInput

SCHEMA_VERSION: Final = 1

Value = str | int | float | bool
Line = dict[str, Any]

METADATA: Final[Mapping[str, Value]] = {
    "title": "",
    "lang": "",
    "lang_score": -1.0,
    "status": -1,
    "content_type": "",
    "charset": "",
    "truncated": False,
    "depth": -1,
    "parent": "",
    "host": "",
    "domain": "",
    "fetched_at": "",
    "last_modified": "",
    "html_bytes": -1,
    "text_chars": -1,
    "content_sha256": "",
    "simhash": "",
    "dup_of": "",
    "near_dup_of": "",
    "warc_file": "",
    "warc_offset": -1,
    "warc_length": -1,
    "robots_allowed": True,
    "x_robots_tag": "",
    "meta_robots": "",
    "content_usage": "",
    "tdm_reservation": -1,
    "license": "",
    "canonical_url": "",
    "extractor": "",
    "crawl_id": "",
    "worker": "",
}
"""Keys of a document's ``metadata`` in order, each with the value that means "unknown", and so with its type."""

FETCHLOG: Final[Mapping[str, Value]] = {
    "url": "",
    "url_key": "",
    "status": -1,
    "kind": "",
    "logged_at": "",
    "started_at": "",
    "ended_at": "",
    "latency_ms": -1,
    "bytes": -1,
    "robots_rule": "",
    "ip": "",
    "redirect_to": "",
    "redirect_from": "",
    "depth": -1,
    "visit": -1,
    "attempts": -1,
    "crawl_id": "",
    "worker": "",
}
"""Keys of a fetch-log line in order, each with the value that means "unknown"."""

_TOP: Final[Mapping[str, Value]] = dict.fromkeys(("id", "text", "url", "date", "source", "added"), "")
_SHAPES: Final[Mapping[str, re.Pattern[str]]] = {
    "id": re.compile(r"[0-9a-f]{32}"),
    "content_sha256": re.compile(r"([0-9a-f]{64})?"),
    "simhash": re.compile(r"([0-9a-f]{16})?"),
    "url_key": re.compile(r"[0-9a-f]{16}"),
    "url": re.compile(r"https?://.+", re.DOTALL),
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_TIMES = frozenset({"date", "added", "fetched_at", "last_modified", "logged_at", "started_at", "ended_at"})
_TIMES_KNOWN = frozenset({"date", "added", "fetched_at", "logged_at"})


def document(
    *,
    url: str,
    key: int,
    visit: int,
    crawl_id: str,
    worker: str,
    text: str,
    fetched_at: float,
    added: float,
    ordinal: int = 0,
    **metadata: Value,
) -> Line:
    """One document line.

    ``key`` is the URL's fingerprint, ``fetched_at`` and ``added`` are seconds since the epoch, ``ordinal`` tells the
    documents of one page apart (0 for the first). ``date`` is the time of the fetch, as in C4 and FineWeb: always
    known, never invented; what a page says about its own age is ``metadata.last_modified``. Raises BadInput for a
    metadata key that the schema does not have, or a value of another type than the schema's.
    """
    text = clean(text)
    fetched = timestamp(fetched_at)
    given = {"fetched_at": fetched, "crawl_id": crawl_id, "worker": worker, "text_chars": len(text), **metadata}
    return {
        "id": document_id(key, crawl_id, visit, ordinal),
        "text": text,
        "url": clean(url),
        "date": fetched,
        "source": crawl_id,
        "added": timestamp(added),
        "metadata": _filled(METADATA, given),
    }


def fetch_entry(*, url: str, key: int, logged_at: float, **fields: Value) -> Line:
    """One fetch-log line; ``logged_at`` is in seconds since the epoch. Raises BadInput as `document` does."""
    return _filled(FETCHLOG, {"url": url, "url_key": hex64(key), "logged_at": timestamp(logged_at), **fields})


def document_id(key: int, crawl_id: str, visit: int, ordinal: int = 0) -> str:
    """32 hex digits that are the same at every replay: a hash of the URL's key, the crawl and the visit."""
    name = f"{hex64(key)}\0{crawl_id}\0{visit}" + (f"\0{ordinal}" if ordinal else "")
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def encode(line: Line) -> bytes:
    """The line as JSON with its newline. Raises BadInput when a string cannot be UTF-8."""
    try:
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        raise BadInput(f"line for {line.get('url')!r} cannot be written as JSON: {error}") from error


def check(line: bytes) -> list[str]:
    """What is wrong with a document line; empty when nothing is."""
    parsed, faults = _parse(line)
    if faults:
        return faults
    metadata = parsed.pop("metadata", None)
    faults = _faults(parsed, _TOP, "document")
    if not isinstance(metadata, dict):
        return [*faults, "metadata is not an object"]
    faults += _faults(metadata, METADATA, "metadata")
    if parsed.get("source") != metadata.get("crawl_id"):
        faults.append(f"source {parsed.get('source')!r} is not metadata.crawl_id {metadata.get('crawl_id')!r}")
    return faults


def check_fetch_entry(line: bytes) -> list[str]:
    """What is wrong with a fetch-log line; empty when nothing is."""
    parsed, faults = _parse(line)
    if faults:
        return faults
    return _faults(parsed, FETCHLOG, "fetch-log entry")


def clean(text: str) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD; a proper pair of surrogates becomes its character."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as ``2026-07-27T10:11:12.345Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_day(seconds: float) -> str:
    """The UTC day of a time in seconds since the epoch, as ``2026-07-27``."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def hex64(value: int) -> str:
    """A 64-bit fingerprint, signed or not, as 16 hex digits."""
    return f"{value & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def _filled(table: Mapping[str, Value], given: Mapping[str, Value]) -> Line:
    if foreign := given.keys() - table.keys():
        raise BadInput(f"schema version {SCHEMA_VERSION} has no field {', '.join(sorted(foreign))}")
    return {name: _value(name, given.get(name, unknown), unknown) for name, unknown in table.items()}


def _value(name: str, value: Value, unknown: Value) -> Value:
    if isinstance(unknown, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else unknown
    if type(value) is not type(unknown):
        raise BadInput(f"field {name} is {type(unknown).__name__} in schema version {SCHEMA_VERSION}, not {value!r}")
    return clean(value) if isinstance(value, str) else value


def _parse(line: bytes) -> tuple[Line, list[str]]:
    try:
        parsed = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return {}, [f"not JSON: {error}"]
    if not isinstance(parsed, dict):
        return {}, ["not a JSON object"]
    return parsed, []


def _faults(found: Line, table: Mapping[str, Value], what: str) -> list[str]:
    faults = [f"{what} lacks {name}" for name in table if name not in found]
    faults += [f"{what} has unknown field {name}" for name in found if name not in table]
    for name, unknown in table.items():
        if name in found:
            faults += _value_faults(name, found[name], unknown)
    return faults


def _value_faults(name: str, value: Any, unknown: Value) -> list[str]:
    if type(value) is not type(unknown):
        return [f"{name} is {value!r}, not a {type(unknown).__name__}"]
    if not isinstance(value, str):
        return []
    if "\0" in value:
        return [f"{name} holds NUL"]
    if name in _TIMES and not (_TIME.fullmatch(value) or (not value and name not in _TIMES_KNOWN)):
        return [f"{name} is {value!r}, not a time"]
    if (shape := _SHAPES.get(name)) and not shape.fullmatch(value):
        return [f"{name} is {value[:80]!r}"]
    return []
