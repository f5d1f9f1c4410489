"""The directory sink: what readers see appears whole and at once, and every call may be repeated."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from crawler.errors import BadSetting, SinkError
from crawler.storage.sinks import DirectorySink, open_sink

KEY = "documents/dt=2026-07-27/segment.0123456789abcdef.jsonl.gz"


@pytest.fixture
def sink(tmp_path: Path) -> DirectorySink:
    sink = DirectorySink(tmp_path / "out")
    sink.probe()
    return sink


@pytest.fixture
def part(tmp_path: Path) -> Path:
    path = tmp_path / "part"
    path.write_bytes(b"rows")
    return path


def seen(sink: DirectorySink) -> list[str]:
    return [*sink.keys("documents"), *sink.keys("fetchlog")]


def read(sink: DirectorySink) -> bytes:
    with sink.open(KEY) as file:
        return file.read()


def test_a_stored_part_is_seen_only_when_shown(sink: DirectorySink, part: Path) -> None:
    for _ in range(2):
        sink.put(KEY, part)
        assert (seen(sink), list(sink.staged())) == ([], [KEY])
    part.unlink()
    for _ in range(2):
        sink.show(KEY)
        assert (seen(sink), list(sink.staged())) == ([KEY], [])
    assert read(sink) == b"rows"


def test_storing_again_what_is_shown_changes_nothing(sink: DirectorySink, part: Path) -> None:
    sink.put(KEY, part)
    sink.show(KEY)
    sink.put(KEY, part)
    assert (seen(sink), list(sink.staged())) == ([KEY], [])


def test_a_part_is_copied_where_it_cannot_be_linked(
    sink: DirectorySink, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_file_system(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", other_file_system)
    sink.put(KEY, part)
    sink.show(KEY)
    part.write_bytes(b"changed")
    assert read(sink) == b"rows"


def test_showing_what_nobody_stored_is_an_error_that_names_it(sink: DirectorySink) -> None:
    with pytest.raises(SinkError, match=r"segment\.0123456789abcdef"):
        sink.show(KEY)


def test_a_manifest_is_replaced_whole(sink: DirectorySink) -> None:
    assert list(sink.manifests()) == []
    for _ in range(2):
        sink.put_manifest("segment", "{}\n")
    assert list(sink.manifests()) == ["segment"]
    assert sink.read_manifest("segment") == b"{}\n"


def test_a_discarded_part_is_gone(sink: DirectorySink, part: Path) -> None:
    sink.put(KEY, part)
    for _ in range(2):
        sink.discard(KEY)
    assert list(sink.staged()) == []


def test_old_temporary_files_of_dead_processes_are_swept(sink: DirectorySink) -> None:
    old, new = sink.root / ".staging/tmp/old", sink.root / ".staging/tmp/new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert list(sink.staged()) == []
    assert (old.exists(), new.exists()) == (False, True)


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SinkError, match="file"):
        DirectorySink(tmp_path / "file").probe()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_store_that_takes_nothing_says_which_path_and_why(
    sink: DirectorySink, part: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(SinkError, match=f"{KEY}: {os.strerror(code)}"):
        sink.put(KEY, part)
    assert (seen(sink), list(sink.staged())) == ([], [])


def test_what_is_no_corpus_is_said(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="no corpus"):
        DirectorySink(tmp_path / "nothing").manifests()


def test_output_chooses_the_sink(tmp_path: Path) -> None:
    assert isinstance(open_sink(str(tmp_path)), DirectorySink)
    with pytest.raises(BadSetting, match="s3://bucket"):
        open_sink("s3://bucket/prefix")
