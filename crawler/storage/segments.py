"""A segment in the spool: parts that hold the rows, and a journal that says which of their bytes count.

A part is a file of whole gzip members, one member for each group commit; a segment has one part for each kind of line
and UTC day. The journal has one line for each group commit, with a checksum before it: where the commit's members lie
in the parts, and which token each row belongs to. Parts reach the disk before the journal line that names them, so a
whole journal line vouches for its members, and recovery is to keep the longest run of whole commits and to cut
everything behind it. Nothing else is remembered between processes.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from isal import igzip

from crawler.errors import CorruptSegment, SpoolError
from crawler.storage.journal import JOURNAL, Commit, Extent, Part, Row, pack, read_journal

COMPRESS_LEVEL: Final = 2
"""Of ISA-L's. Documents of 5 kB text take 18 us each and get 13 % larger than by zlib's level 6, which takes 317 us."""


@dataclass(slots=True)
class Batch:
    """Lines that wait in memory for the next group commit."""

    rows: list[Row] = field(default_factory=list)
    lines: dict[Part, list[bytes]] = field(default_factory=dict)
    size: int = 0

    def __bool__(self) -> bool:
        return bool(self.lines)

    def add(self, part: Part, *lines: bytes) -> None:
        """Lines without a token: fetch-log entries."""
        self.lines.setdefault(part, []).extend(lines)
        self.size += sum(map(len, lines))

    def add_row(self, row: Row, lines: list[bytes]) -> None:
        """The lines of one leased URL."""
        self.rows.append(row)
        self.add(row.part, *lines)

    def extend(self, later: Batch) -> None:
        """Append what was buffered later."""
        self.rows += later.rows
        for part, lines in later.lines.items():
            self.add(part, *lines)


@dataclass(slots=True)
class Totals:
    """What a part holds: bytes of whole members, lines, lines with text."""

    size: int = 0
    lines: int = 0
    texts: int = 0


class Segment:
    """A segment whose journal is on disk; its rows are not kept in memory, `commits` streams them from the journal.

    ``tokens`` are those of its rows. ``unsealed`` has the rows that this process has yet to seal. ``struck`` are the
    tokens whose rows do not count: found out by sealing and not stored, because sealing again finds the same.
    ``adopted`` means that another process sealed it, as far as it was.
    """

    adopted = False

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.name = name
        self.rows = 0
        self.parts: dict[Part, Totals] = {}
        self.tokens: set[bytes] = set()
        self.unsealed: list[Row] = []
        self.struck: set[bytes] = set()
        self.journal_bytes = 0

    @property
    def journal(self) -> Path:
        return self.directory / (self.name + JOURNAL)

    @property
    def size(self) -> int:
        """Bytes on disk that count."""
        return self.journal_bytes + sum(totals.size for totals in self.parts.values())

    @property
    def kept(self) -> int:
        """Rows that were not struck."""
        return self.rows - len(self.struck)

    def commits(self) -> Iterator[Commit]:
        """Every group commit, oldest first. Raises SpoolError when the journal cannot be read."""
        try:
            for _, commit in read_journal(self.journal, self.journal_bytes):
                yield commit
        except OSError as error:
            raise SpoolError(f"{self.journal}: {error.strerror or error}") from error

    def lost(self) -> bool:
        """Whether any of the segment's files is gone."""
        return not all(path.exists() for path in self.files())

    def files(self) -> list[Path]:
        """The segment's files, the journal last: as long as that is there, the segment is known."""
        return [part.path(self.directory, self.name) for part in self.parts] + [self.journal]

    def delete(self) -> None:
        """Remove the segment's files; those that are gone already are no error."""
        for path in [*map(self.rewritten, self.parts), *self.files()]:
            path.unlink(missing_ok=True)

    def rewritten(self, part: Part) -> Path:
        """Where a part without its struck rows is put together."""
        return self.directory / f"{self.name}.rewritten.{part.kind}.{part.day}"

    def count(self, commit: Commit, journal_end: int) -> None:
        """Take in a commit whose journal line ends at ``journal_end``."""
        for extent in commit.extents:
            if extent.part not in self.parts:  # a new mapping, because other threads may be going through the old one
                self.parts = {**self.parts, extent.part: Totals()}
            totals = self.parts[extent.part]
            totals.size = extent.offset + extent.length
            totals.lines += extent.lines
        for row in commit.rows:
            self.parts[row.part].texts += row.texts
            self.tokens.add(row.token)
        self.rows += len(commit.rows)
        self.journal_bytes = journal_end


class OpenSegment(Segment):
    """The segment that a worker writes to. Files come into being with the first commit.

    `write` is called in a thread, one call at a time.
    """

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__(directory, name)
        self._files: dict[Path, BinaryIO] = {}

    def write(self, batch: Batch) -> None:
        """Put a batch on disk as one commit, and return when it is there.

        Raises SpoolError, with nothing of the batch left in the segment.
        """
        try:
            commit = Commit(tuple(self._append(part, lines) for part, lines in batch.lines.items()), tuple(batch.rows))
            for extent in commit.extents:
                _sync(self._file(extent.part.path(self.directory, self.name)))
            end = self._append_bytes(self.journal, self.journal_bytes, pack(commit))
            _sync(self._file(self.journal))
        except OSError as error:
            self._cut_back()
            raise SpoolError(
                f"{self.directory}: cannot write segment {self.name}: {error.strerror or error}"
            ) from error
        self.count(commit, end)

    def lost(self) -> bool:
        """Whether a file was removed under us: writing on would fill a file that nobody finds."""
        if self._files:
            return any(os.fstat(file.fileno()).st_nlink == 0 for file in self._files.values())
        return bool(self.parts) and super().lost()

    def close(self) -> None:
        """Close the files; the segment can be published or read from now on."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _append(self, part: Part, lines: list[bytes]) -> Extent:
        member = compress(b"".join(lines))
        start = self.parts[part].size if part in self.parts else 0
        self._append_bytes(part.path(self.directory, self.name), start, member)
        return Extent(part, start, len(member), zlib.crc32(member), len(lines))

    def _append_bytes(self, path: Path, start: int, data: bytes) -> int:
        file = self._file(path)
        file.seek(start)
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        return start + len(data)

    def _file(self, path: Path) -> BinaryIO:
        if path not in self._files:
            self._files[path] = open(path, "w+b", buffering=0)  # noqa: SIM115 - kept open until the segment is closed
            sync_directory(self.directory)
        return self._files[path]

    def _cut_back(self) -> None:
        ends = {part.path(self.directory, self.name): totals.size for part, totals in self.parts.items()}
        ends[self.journal] = self.journal_bytes
        for path, file in self._files.items():
            with suppress(OSError):  # recovery cuts it too, and the next write begins at the same place
                file.truncate(ends.get(path, 0))


def recover(directory: Path, name: str) -> Segment:
    """The segment that a dead process left, cut back to its last whole commit.

    Raises SpoolError when its files cannot be read or cut.
    """
    segment = Segment(directory, name)
    segment.adopted = True
    try:
        for end, commit in read_journal(segment.journal, segment.journal.stat().st_size):
            if not all(_whole(directory, name, extent) for extent in commit.extents):
                break
            segment.count(commit, end)
        os.truncate(segment.journal, segment.journal_bytes)
        for path in directory.glob(f"{name}.*.*.*"):
            _cut(path, {part.path(directory, name): totals.size for part, totals in segment.parts.items()}.get(path, 0))
    except OSError as error:
        raise SpoolError(f"cannot recover segment {name} in {directory}: {error.strerror or error}") from error
    return segment


def rewrite(segment: Segment, part: Part, struck: Collection[bytes], target: Path) -> Totals:
    """Write a part to ``target`` without the rows of the struck tokens; the same rows give the same bytes every time.

    Raises CorruptSegment when the part is not what the journal says, SpoolError when ``target`` cannot be written.
    """
    totals = Totals()
    try:
        with open(part.path(segment.directory, segment.name), "rb") as source, open(target, "wb") as out:
            for commit in segment.commits():
                for extent in commit.extents:
                    if extent.part == part:
                        lines = _member_lines(source, extent)
                        if kept := b"".join(_kept(lines, commit, part, struck, totals)):
                            totals.size += out.write(compress(kept))
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise SpoolError(f"cannot rewrite {part.kind} of segment {segment.name}: {error.strerror or error}") from error
    return totals


def compress(data: bytes) -> bytes:
    """One gzip member; the same data gives the same bytes."""
    return igzip.compress(data, COMPRESS_LEVEL, mtime=0)


def sync_directory(directory: Path) -> None:
    """Put a directory's entries on disk: a file that was created or renamed is found after a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _kept(lines: list[bytes], commit: Commit, part: Part, struck: Collection[bytes], totals: Totals) -> Iterator[bytes]:
    at = 0
    for row in commit.rows:
        if row.part != part:
            continue
        if row.token not in struck:
            totals.lines += row.lines
            totals.texts += row.texts
            yield from lines[at : at + row.lines]
        at += row.lines


def _member_lines(source: BinaryIO, extent: Extent) -> list[bytes]:
    source.seek(extent.offset)
    member = source.read(extent.length)
    if zlib.crc32(member) != extent.crc:
        raise CorruptSegment(f"{source.name}: bytes {extent.offset} to {extent.offset + extent.length} have changed")
    return gzip.decompress(member).splitlines(keepends=True)


def _whole(directory: Path, name: str, extent: Extent) -> bool:
    try:
        with open(extent.part.path(directory, name), "rb") as file:
            file.seek(extent.offset)
            member = file.read(extent.length)
    except FileNotFoundError:
        return False
    return len(member) == extent.length and zlib.crc32(member) == extent.crc


def _cut(path: Path, end: int) -> None:
    if end:
        os.truncate(path, end)
    else:
        path.unlink()


def _sync(file: BinaryIO) -> None:
    os.fsync(file.fileno())
