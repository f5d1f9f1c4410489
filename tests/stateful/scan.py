"""A full scan of one partition in Redis, by the documented schema and nothing of the client."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from redis import Redis

Url = tuple[str, bytes]  # group; the record without depth, trail and chain


@dataclass(frozen=True)
class Group:
    turns: int
    bands: frozenset[int]
    next_allowed_ms: float


@dataclass(frozen=True)
class Scan:
    """What stands where."""

    counters: dict[str, int]
    seen: int
    urls: dict[str, list[Url]]
    queues: dict[tuple[int, str], list[bytes]]
    groups: dict[str, Group]
    due: list[dict[str, float]]
    turns: set[tuple[bytes, str]]
    leased: set[tuple[bytes, str]]
    sealed: set[bytes]
    owned_by_worker: dict[str, set[bytes]]
    worker_sets: dict[str, set[bytes]]
    segments: dict[str, set[bytes]]
    segment_owners: dict[str, str]
    sessions: set[str]


def _url(group: str, record: bytes) -> Url:
    """What tells URLs apart: flags but for those of the chain, host and path; not depth, trail and chain."""
    assert record[0] == 1, "every record begins with its version"
    flags, at = record[1], 4 + record[3]
    host = b""
    if flags & 4:
        host, at = record[at : at + 1 + record[at]], at + 1 + record[at]
    if flags & 8:
        at += 1 + 8 * record[at]
    return group, bytes((flags & ~8,)) + host + record[at:]


def _tail(tail: bytes) -> tuple[str, bytes]:
    return tail[1 : 1 + tail[0]].decode(), tail[1 + tail[0] :]


def scan(client: Redis, crawl: str, partition: int, bands: int) -> Scan:
    """Read everything. Slow, and only right while nobody writes."""
    tag = f"{{{crawl}:{partition}}}:"
    names = [name.decode().removeprefix(tag) for name in client.scan_iter(match=f"{tag}*", count=10_000)]
    reads: dict[str, str] = {
        "n": "hgetall",
        "leases": "hgetall",
        "groups": "hgetall",
        "segs": "hgetall",
        "dead": "xrange",
    }
    reads |= dict.fromkeys(["delayed", "turns", "sessions", *(f"due:{band}" for band in range(bands))], "zrange")
    reads |= {name: "lrange" for name in names if name.startswith("q:")}
    reads |= {name: "smembers" for name in names if name.startswith(("w:", "s:"))}
    reads |= {name: "scard" for name in names if name.startswith("seen:")}
    pipe = client.pipeline(transaction=False)
    for name, command in reads.items():
        more = {"zrange": (0, -1), "lrange": (0, -1)}.get(command, ())
        named = {"withscores": True} if command == "zrange" else {}
        getattr(pipe, command)(tag + name, *more, **named)
    return _read(dict(zip(reads, pipe.execute(), strict=True)), bands)


def _read(found: dict[str, Any], bands: int) -> Scan:
    def of(prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}

    queues = {(int(name[0]), name.partition(":")[2]): records for name, records in of("q:").items()}
    states: dict[str, list[Url]] = {state: [] for state in ("queued", "delayed", "leased", "held", "sealed", "dead")}
    for (_, group), records in queues.items():
        states["queued"] += [_url(group, record) for record in records]
    states["delayed"] = [_url(*_tail(member[1:])) for member, _ in found["delayed"]]
    letters = [fields[b"l"] for _, fields in found["dead"]]
    states["dead"] = [_url(*_tail(letter[11 + letter[10] :])) for letter in letters]
    turns = {(member[:16], member[16:].decode()) for member, _ in found["turns"]}
    leased, sealed, owners = set(), set(), dict[str, set[bytes]]()
    for token, row in found["leases"].items():
        worker, (group, record) = row[20 : 20 + row[19]].decode(), _tail(row[20 + row[19] :])
        state = "sealed" if row[1:2] == b"S" else "leased" if (token, group) in turns else "held"
        states[state].append(_url(group, record))
        if state == "leased":
            leased.add((token, group))
        if state == "sealed":
            sealed.add(token)
        else:
            owners.setdefault(worker, set()).add(token)
    return Scan(
        counters={name.decode(): int(value) for name, value in found["n"].items()},
        seen=sum(of("seen:").values()),
        urls=states,
        queues=queues,
        groups={name.decode(): _group(row) for name, row in found["groups"].items()},
        due=[{name.decode(): score for name, score in found[f"due:{band}"]} for band in range(bands)],
        turns=turns,
        leased=leased,
        sealed=sealed,
        owned_by_worker=owners,
        worker_sets=of("w:"),
        segments=of("s:"),
        segment_owners={name.decode(): worker.decode() for name, worker in found["segs"].items()},
        sessions={worker.decode() for worker, _ in found["sessions"]},
    )


def _group(row: bytes) -> Group:
    version, _, turns, mask, allowed, _ = struct.unpack_from(">BBBHdI", row)
    assert version == 1, "every record begins with its version"
    return Group(turns, frozenset(band for band in range(16) if mask >> band & 1), allowed)
