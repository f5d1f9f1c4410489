"""Reading a corpus back: does everything that the manifests name stand, whole, once, and in the right form?

Every object is read once, as a stream: its bytes are hashed on their way to the decompressor, its lines checked as they
come out. What has to be compared over the whole corpus, ids and URLs, goes through digests that overflow to temporary
files, so memory does not grow with the corpus.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, Self

import orjson

from crawler.errors import CorruptSegment, SinkError
from crawler.storage import schema
from crawler.storage.manifests import Manifest, ObjectEntry
from crawler.storage.sinks import Sink

FAULTS_KEPT: Final = 1000

_BUCKETS: Final = 64
_DIGEST: Final = 16
"""Bytes of a digest: two different ones meet by chance once in 1e20 documents."""
_IN_MEMORY: Final = 32 * 1024**2
"""Bytes of digests that are kept in memory before they overflow to temporary files."""

Progress = Callable[[str], None]


@dataclass(slots=True)
class Report:
    """What `verify` found. Each fault names the object it is about; FAULTS_KEPT are kept, all are counted."""

    ok: bool = True
    manifests: int = 0
    objects: int = 0
    documents: int = 0
    fetches: int = 0
    bytes: int = 0
    fault_count: int = 0
    faults: list[str] = field(default_factory=list)

    def fault(self, what: str) -> None:
        """The corpus is not right."""
        self.ok = False
        self.fault_count += 1
        if self.fault_count <= FAULTS_KEPT:
            self.faults.append(what)


@dataclass(slots=True)
class Stats:
    """What a corpus holds by its manifests. ``fetches`` counts fetch-log lines; a fetch may have been logged twice."""

    manifests: int = 0
    documents: int = 0
    with_text: int = 0
    distinct_urls: int = 0
    bytes: int = 0
    by_status: dict[str, int] = field(default_factory=dict)
    fetches: int = 0
    fetches_by_status: dict[str, int] = field(default_factory=dict)
    fetches_by_kind: dict[str, int] = field(default_factory=dict)


def verify(sink: Sink, progress: Progress | None = None) -> Report:
    """Check every manifest, checksum, row count, id and line, and that readers see no document part but those named.

    A part that a running crawl has just shown may be reported as one that no manifest names: its manifest comes next.
    Raises SinkError when the corpus cannot be read at all.
    """
    report = Report()
    named: set[str] = set()
    with Distinct() as ids:
        for manifest in _manifests(sink, report):
            report.manifests += 1
            for entry in manifest.objects:
                if progress:
                    progress(entry.key)
                if entry.key in named:
                    report.fault(f"{entry.key}: named by more than one manifest")
                    continue
                named.add(entry.key)
                report.objects += 1
                report.bytes += entry.bytes
                _check_object(sink, entry, ids, report)
        for key in sink.keys("documents"):
            if key not in named:
                report.fault(f"{key}: no manifest names it")
        for digest, count in ids.repeated():
            report.fault(f"id {digest.hex()}: stands {count} times")
    return report


def stats(sink: Sink, progress: Progress | None = None) -> Stats:
    """Count what the manifests name. Raises SinkError or CorruptSegment when an object cannot be read."""
    found = Stats()
    statuses: Counter[str] = Counter()
    fetch_statuses: Counter[str] = Counter()
    fetch_kinds: Counter[str] = Counter()
    with Distinct() as urls:
        for segment in sink.manifests():
            found.manifests += 1
            for entry in Manifest.parse(sink.read_manifest(segment)).objects:
                found.bytes += entry.bytes
                for line in _json_lines(sink, entry, progress):
                    if entry.key.startswith("documents/"):
                        found.documents += 1
                        found.with_text += bool(line["text"])
                        urls.add(_digest(line["url"]))
                        statuses[str(line["metadata"]["status"])] += 1
                    else:
                        found.fetches += 1
                        fetch_statuses[str(line["status"])] += 1
                        fetch_kinds[line["kind"]] += 1
        found.distinct_urls = urls.count()
    found.by_status = dict(sorted(statuses.items()))
    found.fetches_by_status = dict(sorted(fetch_statuses.items()))
    found.fetches_by_kind = dict(sorted(fetch_kinds.items()))
    return found


class Distinct:
    """A multiset of 16-byte digests that says how many are distinct and which occur again, in bounded memory.

    Digests are spread over buckets by their first byte; when all buckets outgrow ``limit`` bytes, their contents
    move to temporary files, and each bucket is looked at alone in the end.
    """

    def __init__(self, limit: int = _IN_MEMORY) -> None:
        self._limit = limit
        self._size = 0
        self._buckets = [bytearray() for _ in range(_BUCKETS)]
        self._files: list[BinaryIO] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, digest: bytes) -> None:
        """Count one more of this digest."""
        self._buckets[digest[0] % _BUCKETS] += digest
        self._size += _DIGEST
        if self._size >= self._limit:
            self._overflow()

    def count(self) -> int:
        """How many different digests were added."""
        return sum(len(counter) for counter in self._counters())

    def repeated(self) -> Iterator[tuple[bytes, int]]:
        """Digests that were added more than once, and how often."""
        for counter in self._counters():
            yield from ((digest, count) for digest, count in counter.items() if count > 1)

    def _overflow(self) -> None:
        if not self._files:
            self._files = [tempfile.TemporaryFile() for _ in range(_BUCKETS)]  # noqa: SIM115 - closed with this object
        for bucket, file in zip(self._buckets, self._files, strict=True):
            file.write(bucket)
            bucket.clear()
        self._size = 0

    def _counters(self) -> Iterator[Counter[bytes]]:
        for number, bucket in enumerate(self._buckets):
            data = bytes(bucket)
            if self._files:
                self._files[number].seek(0)
                data += self._files[number].read()
            yield Counter(data[at : at + _DIGEST] for at in range(0, len(data), _DIGEST))


class _Hashing(io.RawIOBase):
    """A file that hashes and counts what is read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self.sha256.update(data)
        self.size += len(data)
        return len(data)


def _manifests(sink: Sink, report: Report) -> Iterator[Manifest]:
    for segment in sink.manifests():
        try:
            manifest = Manifest.parse(sink.read_manifest(segment))
        except CorruptSegment as error:
            report.fault(f"manifests/{segment}.json: {error}")
            continue
        if manifest.segment != segment:
            report.fault(f"manifests/{segment}.json: is the manifest of {manifest.segment}")
        yield manifest


def _check_object(sink: Sink, entry: ObjectEntry, ids: Distinct, report: Report) -> None:
    def fault(what: str) -> None:
        report.fault(f"{entry.key}: {what}")

    try:
        with sink.open(entry.key) as file:
            hashing = _Hashing(file)
            rows = texts = 0
            try:
                for number, line in enumerate(_lines(hashing), 1):
                    rows += 1
                    faults, text = _check_line(entry, line, ids, report)
                    texts += text
                    for what in faults:
                        fault(f"line {number}: {what}")
            except (OSError, EOFError, zlib.error) as error:
                fault(f"cannot be decompressed: {error}")
            while hashing.read(1 << 20):
                pass  # what is left behind a fault counts for the checksum
    except FileNotFoundError:
        fault("is missing")
        return
    if hashing.size != entry.bytes:
        fault(f"has {hashing.size} bytes, its manifest says {entry.bytes}")
    if hashing.sha256.hexdigest() != entry.sha256:
        fault(f"has SHA-256 {hashing.sha256.hexdigest()}, its manifest says {entry.sha256}")
    if (rows, texts) != (entry.rows, entry.rows_with_text):
        fault(f"has {rows} rows, {texts} with text; its manifest says {entry.rows}, {entry.rows_with_text}")


def _check_line(entry: ObjectEntry, line: bytes, ids: Distinct, report: Report) -> tuple[list[str], bool]:
    """What is wrong with one line, and whether it is a document with text."""
    if not entry.key.startswith("documents/"):
        report.fetches += 1
        return schema.check_fetch_entry(line), False
    report.documents += 1
    if faults := schema.check(line):
        return faults, False
    document = orjson.loads(line)
    ids.add(bytes.fromhex(document["id"]))
    return [], bool(document["text"])


def _lines(file: io.RawIOBase) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BufferedReader(file, 1 << 20)) as lines:
        yield from lines


def _json_lines(sink: Sink, entry: ObjectEntry, progress: Progress | None) -> Iterator[dict[str, Any]]:
    if progress:
        progress(entry.key)
    try:
        with sink.open(entry.key) as file:
            for line in _lines(_Hashing(file)):
                yield orjson.loads(line)
    except FileNotFoundError as error:
        raise SinkError(f"{entry.key}: is missing") from error
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise CorruptSegment(f"{entry.key}: {error}") from error


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).digest()
