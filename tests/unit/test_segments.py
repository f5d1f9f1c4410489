"""Spooled segments: whatever a crash leaves of the files, recovery keeps whole commits and nothing else."""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.errors import CorruptSegment, SpoolError
from crawler.storage.journal import Commit, Extent, Part, Row, pack, segment_of, unpack
from crawler.storage.segments import Batch, OpenSegment, Segment, recover, rewrite
from crawler.storage.spool import Spool, file_name
from tests.support.corpus import file_size_limit

MONDAY, TUESDAY = Part("documents", "2026-07-27"), Part("documents", "2026-07-28")
FETCHES = Part("fetchlog", "2026-07-28")
NAME = "crawl-w-1-000001"


def token(number: int) -> bytes:
    return number.to_bytes(16, "big")


def lines_of(number: int) -> list[bytes]:
    return [b'{"n": %d, "line": %d}\n' % (number, line) for line in range(1 + number % 3)]


def batch_of(numbers: range) -> Batch:
    batch = Batch()
    for number in numbers:
        part = TUESDAY if number % 4 == 3 else MONDAY
        lines = lines_of(number)
        batch.add_row(Row(token(number), f"g{number % 5}.test", b"\xff record", part, len(lines), 1), lines)
        batch.add(FETCHES, b'{"fetch": %d}\n' % number)
    return batch


def write_segment(directory: Path, commits: int = 3, rows: int = 4) -> Segment:
    segment = OpenSegment(directory, NAME)
    for number in range(commits):
        segment.write(batch_of(range(number * rows, (number + 1) * rows)))
    segment.close()
    return segment


def content(segment: Segment) -> list[bytes]:
    """All document lines, part by part."""
    parts = sorted(part for part in segment.parts if part.kind == "documents")
    return [
        line
        for part in parts
        for line in gzip.decompress(part.path(segment.directory, NAME).read_bytes()).splitlines(True)
    ]


def expected(rows: range) -> list[bytes]:
    monday = [line for number in rows if number % 4 != 3 for line in lines_of(number)]
    return monday + [line for number in rows if number % 4 == 3 for line in lines_of(number)]


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    written = write_segment(tmp_path)
    found = recover(tmp_path, NAME)
    assert found.parts == written.parts
    assert found.tokens == {token(number) for number in range(12)}
    assert (found.rows, found.size) == (12, sum(path.stat().st_size for path in tmp_path.iterdir()))
    assert [row.token for commit in found.commits() for row in commit.rows] == [token(number) for number in range(12)]
    assert content(found) == expected(range(12))


@pytest.mark.case("W02")
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_truncation_recovers_to_whole_commits(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_segment(directory)
        path = data.draw(st.sampled_from(sorted(directory.iterdir())))
        os.truncate(path, data.draw(st.integers(0, path.stat().st_size - 1)))
        check_recovered(directory)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_flipped_byte_recovers_to_whole_commits(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_segment(directory)
        path = data.draw(st.sampled_from(sorted(directory.iterdir())))
        damaged = bytearray(path.read_bytes())
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(damaged)
        check_recovered(directory)


def check_recovered(directory: Path) -> None:
    """A damaged segment of 3 commits of 4 rows is 0, 1 or 2 whole commits, on disk too, and stays so."""
    segment = recover(directory, NAME)
    assert segment.rows in (0, 4, 8)
    assert content(segment) == expected(range(segment.rows))
    assert segment.size == sum(path.stat().st_size for path in directory.iterdir())
    again = recover(directory, NAME)
    assert (again.rows, again.parts) == (segment.rows, segment.parts)


def test_a_tail_behind_the_last_commit_is_cut(tmp_path: Path) -> None:
    segment = write_segment(tmp_path)
    for path in tmp_path.iterdir():
        with open(path, "ab") as file:
            file.write(b"half a member")
    Part("documents", "2026-07-29").path(tmp_path, NAME).write_bytes(b"a part that no commit names")
    assert recover(tmp_path, NAME).rows == 12
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == segment.size


def test_rewriting_leaves_out_struck_rows_only_and_is_deterministic(tmp_path: Path) -> None:
    segment = write_segment(tmp_path)
    struck = {token(0), token(3), token(5)}
    target = tmp_path / "rewritten"
    totals = rewrite(segment, MONDAY, struck, target)
    kept = [number for number in range(12) if number % 4 != 3 and token(number) not in struck]
    assert gzip.decompress(target.read_bytes()).splitlines(True) == [line for n in kept for line in lines_of(n)]
    assert (totals.lines, totals.texts) == (sum(len(lines_of(n)) for n in kept), len(kept))
    assert totals.size == target.stat().st_size
    first = target.read_bytes()
    rewrite(segment, MONDAY, struck, target)
    assert target.read_bytes() == first


def test_rewriting_a_damaged_part_is_refused(tmp_path: Path) -> None:
    segment = write_segment(tmp_path)
    path = MONDAY.path(tmp_path, NAME)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(CorruptSegment, match="documents"):
        rewrite(segment, MONDAY, {token(0)}, tmp_path / "rewritten")


def test_a_commit_that_finds_no_room_leaves_the_segment_as_it_was(tmp_path: Path) -> None:
    segment = OpenSegment(tmp_path, NAME)
    segment.write(batch_of(range(4)))
    before = segment.size
    batch = batch_of(range(4, 8))
    batch.add(MONDAY, os.urandom(20_000).hex().encode() + b"\n")
    with file_size_limit(4096), pytest.raises(SpoolError, match=str(tmp_path)):
        segment.write(batch)
    assert segment.size == before == sum(path.stat().st_size for path in tmp_path.iterdir())
    segment.write(batch_of(range(4, 8)))
    segment.close()
    assert content(recover(tmp_path, NAME)) == expected(range(8))


def test_a_segment_knows_that_its_files_were_removed(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    directory.mkdir()
    segment = OpenSegment(directory, NAME)
    assert not segment.lost()
    segment.write(batch_of(range(4)))
    assert not segment.lost()
    shutil.rmtree(directory)
    assert segment.lost()
    segment.close()
    assert segment.lost()


@given(
    st.lists(
        st.builds(
            Row,
            token=st.binary(min_size=16, max_size=16),
            group=st.text(st.characters(codec="utf-8")),
            record=st.binary(),
            part=st.sampled_from([MONDAY, TUESDAY]),
            lines=st.integers(1, 9),
            texts=st.integers(0, 9),
        )
    )
)
def test_a_journal_line_round_trips(rows: list[Row]) -> None:
    commit = Commit((Extent(MONDAY, 0, 5, 7, 9), Extent(TUESDAY, 1, 2, 3, 4)), tuple(rows))
    line = pack(commit)
    assert unpack(line) == commit
    assert unpack(line[:-1]) is None


def test_a_journal_of_another_version_is_refused_and_not_cut() -> None:
    body = b'{"v":2}'
    with pytest.raises(CorruptSegment, match="version 2"):
        unpack(b"%08x %s\n" % (zlib.crc32(body), body))


def test_a_key_tells_its_segment() -> None:
    assert segment_of(MONDAY.key("a.b-w-000001", "0123456789abcdef" * 4)) == "a.b-w-000001"


# The spool: whose it is


def test_a_spool_in_use_is_not_adopted_and_a_left_one_is(tmp_path: Path) -> None:
    mine = Spool.open(tmp_path, "c", "w-1")
    write_segment(mine.directory)
    assert list(Spool.adoptable(tmp_path, "c")) == []
    with pytest.raises(SpoolError, match="w-1"):
        Spool.open(tmp_path, "c", "w-1")
    mine.close()
    [found] = Spool.adoptable(tmp_path, "c")
    [segment] = found.segments()
    assert (segment.name, segment.rows, segment.adopted) == (NAME, 12, True)
    assert list(Spool.adoptable(tmp_path, "c")) == []
    assert list(Spool.adoptable(tmp_path, "other")) == []
    found.remove()
    assert list((tmp_path / "c").iterdir()) == []


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = "import os, sys, pathlib; from crawler.storage.spool import Spool; "
    code += "Spool.open(pathlib.Path(sys.argv[1]), 'c', 'w-1'); os.kill(os.getpid(), 9)"
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[2], check=False)
    assert died.returncode == -signal.SIGKILL
    [found] = Spool.adoptable(tmp_path, "c")
    assert found.segments() == []
    found.close()
    assert list((tmp_path / "c").iterdir()) == []


def test_a_lock_on_a_removed_lock_file_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[[int, int], None] = fcntl.flock
    mine = Spool.open(tmp_path, "c", "w-1")

    def slow_lock(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        mine.remove()  # the owner is done with it between our open and our lock
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", slow_lock)
    assert list(Spool.adoptable(tmp_path, "c")) == []
    assert list((tmp_path / "c").iterdir()) == []


def test_a_removed_spool_is_noticed(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, "c", "w-1")
    assert not spool.lost()
    (tmp_path / "c" / "w-1.lock").unlink()
    assert spool.lost()
    spool.close()
    spool.close()


def test_a_spool_that_cannot_be_made_names_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolError, match="file"):
        Spool.open(tmp_path / "file", "c", "w-1")


def test_names_become_file_names() -> None:
    assert file_name("host.example:6800/jobs ü") == "host.example_6800_jobs__"
