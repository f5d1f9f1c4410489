"""How the frontier's records look as bytes. Every one begins with a version; nothing else packs or unpacks them.

The record of a queued URL holds only what is needed to fetch it. Scripts know its first bytes and no more:

    byte 1    version
    byte 2    flags, see `_HTTPS` and below
    byte 3    depth, at most 255
    byte 4    n, the length of the trail
    n bytes   one code per failure or expiry met, oldest first (policy.KINDS; 0: replayed)
    [u8 length, host]            unless the host is the group itself or www.<group>
    [u8 count, i64 each]         redirect chain, oldest first
    [u16 length, text]           parent; without its scheme and host when they are the URL's own
    [u32 length, JSON]           {"request": …, "visit": …}
    rest                         path and query without the leading slash

The URL's key is not in it: it is computed anew from the URL, the request and the visit. In calls a URL is named by
its token and its *tail*: u8 length, group, record; which is also how rows of other kinds end.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import xxhash

from crawler.errors import BadInput, FrontierMismatch
from crawler.frontier.policy import BY_CODE, REPLAYED
from crawler.frontier.types import Candidate, DeadLetter, GroupInfo, Lease, Wire
from crawler.urls import fingerprint

VERSION: Final = 1
"""Of all records together; stored with the crawl and in each record's first byte."""

MAX_GROUP: Final = 255
"""Longest name of a politeness group, in bytes."""

MAX_TRAIL: Final = 255
"""Most failures that a record remembers; older ones are dropped."""

_HTTPS = 1
_WWW = 2
_HOST = 4
_CHAIN = 8
_PARENT = 16
_EXTRA = 32

_HEAD = struct.Struct(">BBBB")
_LENGTH16 = struct.Struct(">H")
_LENGTH32 = struct.Struct(">I")
_ROW = struct.Struct(">BcBddB")  # version, state, band, granted ms, deadline ms, length of the worker's name
_GROUP_ROW = struct.Struct(">BBBHdI")  # version, flags, open turns, band mask, next allowed ms, delay ms; then the pace
_RULES = struct.Struct(">dI")  # blocked until ms, least delay ms
_LETTER_ID = re.compile(r"\d{1,5}:\d{1,16}-\d{1,16}", re.ASCII)
_WIRE = struct.Struct(">II")
_LETTER = struct.Struct(">BdBB")  # version, buried ms, band, length of the reason
_ENTRY = struct.Struct(">BdB")  # version, made ms, band

Fingerprint = Callable[[str], int]


def candidate_key(url_key: int, request: Mapping[str, Any] | None = None, visit: int = 0) -> int:
    """The key of what is fetched: that of the URL for a plain GET; else with method, body and visit mixed in.

    ``request`` is a request's stored form or any part of it; headers, callback and meta make no other resource of it.
    Returns a signed 64-bit int.
    """
    parts = {name: request[name] for name in ("method", "body") if request.get(name)} if request else {}
    if parts.get("method", "").upper() == "GET":
        del parts["method"]
    if not parts and not visit:
        return url_key
    text = json.dumps([url_key, parts, visit], sort_keys=True, separators=(",", ":"))
    digest = xxhash.xxh3_64_intdigest(text.encode())
    return digest - (digest >> 63 << 64)


def pack_record(candidate: Candidate) -> bytes:
    """The record of a candidate that is queued for the first time. Raises BadInput."""
    scheme, _, rest = candidate.url.partition("://")
    host, slash, path = rest.partition("/")
    if scheme not in ("http", "https") or not host or not slash:
        raise BadInput(f"not a URL in wire form: {candidate.url!r}")
    flags = _HTTPS if scheme == "https" else 0
    extras = b""
    if host != candidate.group:
        if host == "www." + candidate.group:
            flags |= _WWW
        else:
            flags |= _HOST
            extras = _short(host.encode(), "host of", candidate.url)
    if candidate.chain:
        flags |= _CHAIN
        extras += struct.pack(f">B{len(candidate.chain)}q", len(candidate.chain), *candidate.chain)
    if candidate.parent:
        flags |= _PARENT
        parent = candidate.parent.removeprefix(f"{scheme}://{host}").encode()[:0xFFFF]
        extras += _LENGTH16.pack(len(parent)) + parent
    if candidate.request or candidate.visit:
        flags |= _EXTRA
        extra = _json({"request": candidate.request, "visit": candidate.visit})
        extras += _LENGTH32.pack(len(extra)) + extra
    return _HEAD.pack(VERSION, flags, min(candidate.depth, 255), 0) + extras + path.encode()


def _json(value: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise BadInput(f"a request that is not JSON: {value!r} ({error})") from error


def _short(text: bytes, what: str, whose: str) -> bytes:
    if len(text) > 255:
        raise BadInput(f"{what} {whose!r} is longer than 255 bytes")
    return bytes((len(text),)) + text


def unpack_record(record: bytes, group: str, band: int, fingerprint: Fingerprint = fingerprint) -> Candidate:
    """The candidate of a record, its key computed with ``fingerprint``. Raises FrontierMismatch on another
    version."""
    version, flags, depth, n = _HEAD.unpack_from(record)
    if version != VERSION:
        raise FrontierMismatch(f"a record of version {version} in group {group!r}; this program knows {VERSION}")
    at = 4 + n
    host = "www." + group if flags & _WWW else group
    chain: tuple[int, ...] = ()
    parent = ""
    extra: dict[str, Any] = {}
    if flags & _HOST:
        host = record[at + 1 : at + 1 + record[at]].decode()
        at += 1 + record[at]
    if flags & _CHAIN:
        chain = struct.unpack_from(f">{record[at]}q", record, at + 1)
        at += 1 + 8 * len(chain)
    site = f"https://{host}" if flags & _HTTPS else f"http://{host}"
    if flags & _PARENT:
        end = at + 2 + _LENGTH16.unpack_from(record, at)[0]
        parent = record[at + 2 : end].decode(errors="replace")
        parent = site + parent if parent.startswith("/") else parent
        at = end
    if flags & _EXTRA:
        end = at + 4 + _LENGTH32.unpack_from(record, at)[0]
        extra = json.loads(record[at + 4 : end])
        at = end
    url = f"{site}/{record[at:].decode()}"
    request, visit = extra.get("request"), extra.get("visit", 0)
    key = candidate_key(fingerprint(url), request, visit)
    return Candidate(url, key, group, band, depth, visit, chain, request, parent)


def trail_of(record: bytes) -> tuple[str, ...]:
    """The failures and expiries a record has met, oldest first, by name; "replayed" where it was replayed."""
    return tuple("replayed" if code == REPLAYED else _name(code) for code in record[4 : 4 + record[3]])


def _name(code: int) -> str:
    kind = BY_CODE.get(code)
    return kind.name if kind else f"kind-{code}"


def with_failure(record: bytes, code: int | None) -> bytes:
    """The record with one more code at the end of its trail; None: as it is."""
    if code is None:
        return record
    n = record[3]
    trail = (record[4 : 4 + n] + bytes((code,)))[-MAX_TRAIL:]
    return record[:3] + bytes((len(trail),)) + trail + record[4 + n :]


def tail_of(group: str, record: bytes) -> bytes:
    """Group and record as calls name them. Raises BadInput."""
    name = group_name(group)
    return bytes((len(name),)) + name + record


def group_name(group: str) -> bytes:
    """A group's name as stored. Raises BadInput when it is empty or too long."""
    name = group.encode()
    if not 0 < len(name) <= MAX_GROUP:
        raise BadInput(f"the name of a politeness group has 1 to {MAX_GROUP} bytes: {group!r}")
    return name


def split_tail(tail: bytes) -> tuple[str, bytes]:
    """Group and record of a tail."""
    end = 1 + tail[0]
    return tail[1:end].decode(), tail[end:]


def pack_wire(wire: Wire | None) -> bytes:
    """A wire as scripts take it: u32 age ms, u32 delay ms, pace; b"" for none."""
    if wire is None:
        return b""
    longest = 0xFFFFFFFF
    return _WIRE.pack(max(0, min(wire.age_ms, longest)), max(0, min(wire.delay_ms, longest))) + (wire.pace or b"")


def unpack_grant(token: bytes, row: bytes, pace: bytes, asked: float, fingerprint: Fingerprint = fingerprint) -> Lease:
    """The lease in a row of the hash ``leases``. Raises FrontierMismatch."""
    version, _, band, granted, deadline, length = _ROW.unpack_from(row)
    if version != VERSION:
        raise FrontierMismatch(f"a lease row of version {version}; this program knows {VERSION}")
    group, record = split_tail(row[_ROW.size + length :])
    found = unpack_record(record, group, band, fingerprint)
    return Lease(
        token, group, band, record, found.url, found.key, found.depth, found.visit, found.chain, trail_of(record),
        int(deadline), int(granted), pace, found.request, found.parent, asked,
    )  # fmt: skip


def split_row(row: bytes) -> tuple[str, bytes]:
    """Group and record of a row of the hash ``leases``."""
    return split_tail(row[_ROW.size + row[_ROW.size - 1] :])


def unpack_group(name: str, row: bytes, rules: bytes | None) -> GroupInfo:
    """A row of the hash ``groups``, with the group's field of ``rules`` if it has one."""
    _, _, turns, mask, next_allowed, delay = _GROUP_ROW.unpack_from(row)
    blocked = int(_RULES.unpack(rules)[0]) if rules else 0
    bands = tuple(band for band in range(16) if mask >> band & 1)
    return GroupInfo(name, turns, bands, int(next_allowed), delay, blocked, row[_GROUP_ROW.size :])


def unpack_pace(row: bytes | None) -> bytes:
    """The pace in a row of the hash ``groups``."""
    return row[_GROUP_ROW.size :] if row else b""


def unpack_letter(id_: str, row: bytes) -> DeadLetter:
    """The letter in an entry of the stream ``dead``; ``id_`` is what `replay` takes."""
    _, buried, band, length = _LETTER.unpack_from(row)
    at = _LETTER.size + length
    reason = row[_LETTER.size : at].decode()
    group, record = split_tail(row[at:])
    return dead_letter(id_, band, group, record, reason, int(buried))


def split_letter(row: bytes) -> tuple[str, bytes]:
    """Group and record of an entry of the stream ``dead``."""
    return split_tail(row[_LETTER.size + row[_LETTER.size - 1] :])


def dead_letter(id_: str, band: int, group: str, record: bytes, reason: str, buried_ms: int) -> DeadLetter:
    """A dead letter from its parts."""
    found = unpack_record(record, group, band, _no_key)
    reasons = trail_of(record)
    if not reasons or reasons[-1] != reason:
        reasons = (*reasons, reason)
    return DeadLetter(id_, found.url, group, found.depth, reasons, buried_ms)


def _no_key(_url: str) -> int:
    return 0


def letter_place(id_: str) -> tuple[int, str]:
    """The partition of a dead letter and its place there. Raises BadInput for what is no letter's id."""
    if not _LETTER_ID.fullmatch(id_):
        raise BadInput(f"not the id of a dead letter: {id_!r}")
    partition, _, place = id_.partition(":")
    return int(partition), place


def pack_entry(candidate: Candidate) -> bytes:
    """A redirect's target as the outbox keeps it; the script puts the version and the time before it."""
    return bytes((candidate.band,)) + tail_of(candidate.group, pack_record(candidate))


def unpack_entry(row: bytes, fingerprint: Fingerprint = fingerprint) -> tuple[Candidate, int]:
    """The candidate in a field of the hash ``outbox``, and when it was written, in ms."""
    _, made, band = _ENTRY.unpack_from(row)
    group, record = split_tail(row[_ENTRY.size :])
    return unpack_record(record, group, band, fingerprint), int(made)
