"""The corpus writer at its edges: disks full or wiped, stores that refuse, and what the scheduler asks of it."""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from crawler.errors import BadInput, FrontierUnavailable, ProtocolError, SinkError, SpoolError
from crawler.frontier import Answer
from crawler.frontier.model import Model
from crawler.options import Options
from crawler.storage import CorpusWriter, DirectorySink, fetch_entry
from crawler.storage.verify import stats
from tests.support.corpus import CRAWL, NOW, Corpus, Settled, VirtualClock, file_size_limit, page, recorder, urls
from tests.support.poll import until_async


@pytest.fixture
async def corpus(tmp_path: Path) -> AsyncIterator[Corpus]:
    corpus = Corpus(tmp_path, Model(Options(crawl_id=CRAWL, frontier_partitions=3, download_delay=0.0)))
    await corpus.add(urls(6))
    yield corpus
    for writer in list(corpus.workers):
        corpus.kill(writer)


def documents_on_disk(corpus: Corpus) -> int:
    return len(list(corpus.spools.rglob("*.documents.*")))


async def test_the_background_does_it_all(corpus: Corpus) -> None:
    settled: Settled = {}
    writer = CorpusWriter(
        corpus.frontier,
        corpus.sink,
        spool_dir=corpus.spools,
        crawl=CRAWL,
        worker="w",
        group_commit=0.01,
        on_settled=recorder(settled),
    )
    await writer.open()
    leases = await corpus.fetch("w")
    corpus.write(writer, "w", leases)
    assert (writer.unsealed, writer.unpublished) == (6, 6)
    assert all(writer.knows(lease.token) for lease in leases)
    await writer.committed()
    assert documents_on_disk(corpus) == 1
    await until_async(lambda: writer.unsealed == 0, 10)
    assert set(settled.values()) == {Answer.APPLIED}
    assert writer.unpublished == 6
    writer.rotate_now()
    await until_async(lambda: writer.unpublished == 0, 10)
    assert len(corpus.texts()) == 6
    assert not any(writer.knows(lease.token) for lease in leases)
    await writer.close()
    await writer.close()
    assert list((corpus.spools / CRAWL).iterdir()) == []


async def test_rotation_by_size_and_by_age(corpus: Corpus) -> None:
    clock = VirtualClock()
    writer = await corpus.worker("w", clock=clock, segment_max_age=60.0, segment_max_bytes=100_000)
    leases = await corpus.fetch("w")
    corpus.write(writer, "w", leases[:2])
    await writer.commit()
    clock.now = 59.0
    await writer.commit()
    assert len(writer.known_segments()) == 1
    clock.now = 60.0
    await writer.commit()
    assert len(writer.known_segments()) == 2
    writer.append(leases[2], [page(leases[2], "w", title=os.urandom(100_000).hex())])
    await writer.commit()
    assert len(writer.known_segments()) == 3
    await writer.publish()
    assert len(writer.known_segments()) == 1
    assert len(corpus.texts()) == 3


async def test_documents_of_two_days_go_into_two_parts(corpus: Corpus) -> None:
    writer = await corpus.worker("w")
    leases = await corpus.fetch("w")
    days = ["1970-01-01", "1970-01-02"]
    for lease in leases:
        granted = 0 if lease is leases[0] else 86_400_000
        writer.append(replace(lease, granted_ms=granted), [page(lease, "w")])
    await writer.close()
    assert [key.split("/")[1] for key in corpus.sink.keys("documents")] == [f"dt={day}" for day in days]
    assert len(corpus.texts()) == 6


async def test_several_documents_of_one_page_stand_and_fall_together(corpus: Corpus) -> None:
    writer = await corpus.worker("w")
    leases = await corpus.fetch("w")
    await corpus.frontier.release([leases[0]])
    for lease in leases:
        first = page(lease, "w")
        writer.append(lease, [first, {**first, "id": first["id"][::-1]}, {**first, "id": first["id"][1:] + "0"}])
    with pytest.raises(ProtocolError, match="appended before"):
        writer.append(leases[0], [page(leases[0], "w")])
    with pytest.raises(ProtocolError, match="no document"):
        writer.append(replace(leases[0], token=bytes(16)), [])
    await writer.close()
    assert sum(1 for key in corpus.sink.keys("documents")) == 1
    found = stats(corpus.sink)
    assert (found.documents, found.distinct_urls) == (15, 5)


async def test_a_line_that_is_no_json_is_refused_and_costs_nobody_else(corpus: Corpus) -> None:
    writer = await corpus.worker("w")
    leases = await corpus.fetch("w")
    bad = page(leases[0], "w")
    bad["metadata"]["title"] = object()
    with pytest.raises(BadInput, match=leases[0].url):
        writer.append(leases[0], [bad])
    corpus.write(writer, "w", leases)
    await writer.close()
    assert len(corpus.texts()) == 6


async def test_a_fetch_log_without_documents_is_kept_without_a_manifest(corpus: Corpus) -> None:
    writer = await corpus.worker("w")
    writer.log(fetch_entry(url="http://a.test/", key=1, logged_at=NOW, status=404, kind="not-found"))
    await writer.close()
    assert (len(list(corpus.sink.keys("fetchlog"))), list(corpus.sink.manifests())) == (1, [])


async def test_a_full_spool_slows_leasing_down_until_it_is_published(corpus: Corpus) -> None:
    writer = await corpus.worker("w", spool_max_bytes=500)
    assert not writer.full
    corpus.write(writer, "w", await corpus.fetch("w"))
    writer.rotate_now()
    await writer.commit()
    assert writer.full
    await writer.publish()
    assert not writer.full


async def test_a_disk_that_is_full_keeps_rows_in_memory_until_there_is_room(corpus: Corpus) -> None:
    writer = await corpus.worker("w")
    leases = await corpus.fetch("w")
    corpus.write(writer, "w", leases[:3])
    await writer.commit()
    corpus.write(writer, "w", leases[3:5])
    writer.append(leases[5], [page(leases[5], "w", title=os.urandom(50_000).hex())])
    with file_size_limit(4096):
        for _ in range(2):
            with pytest.raises(SpoolError, match=str(corpus.spools)):
                await writer.commit()
    assert writer.unsealed == 3
    await writer.close()
    assert len(corpus.texts()) == 6


async def test_a_store_that_refuses_loses_nothing(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is on another file system, which is full: the copy fails half done."""

    def other_file_system(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", other_file_system)
    writer = await corpus.worker("w")
    for lease in await corpus.fetch("w"):
        writer.append(lease, [page(lease, "w", title=os.urandom(5000).hex())])
    writer.rotate_now()
    await writer.commit()
    with file_size_limit(4096), pytest.raises(SinkError, match="documents"):
        await writer.publish()
    assert (list(corpus.sink.staged()), list((corpus.output / ".staging/tmp").iterdir())) == ([], [])
    assert writer.unpublished == 6
    await writer.publish()
    assert len(corpus.texts()) == 6


async def test_closing_beside_a_store_that_refuses_leaves_the_spool_to_the_next_start(corpus: Corpus) -> None:
    class Broken(DirectorySink):
        def put(self, key: str, path: Path) -> None:
            raise SinkError(f"{key}: no space left on device")

    writer = await corpus.worker("w", sink=Broken(corpus.output))
    corpus.write(writer, "w", await corpus.fetch("w"))
    with pytest.raises(SinkError, match="no space left"):
        await writer.close()
    corpus.workers.remove(writer)
    assert corpus.texts() == {}
    await (await corpus.worker("next")).publish()
    assert len(corpus.texts()) == 6


async def test_a_background_failure_is_shown_and_said_once(
    corpus: Corpus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.storage.duties.RETRY_FIRST", 0.001)
    monkeypatch.setattr("crawler.storage.duties.RETRY_MOST", 0.001)
    tries = []
    put = DirectorySink.put

    def refuse(sink: DirectorySink, key: str, path: Path) -> None:
        tries.append(key)
        if len(tries) < 5:
            raise SinkError("out: no space left on device")
        put(sink, key, path)

    monkeypatch.setattr(DirectorySink, "put", refuse)
    arguments = {"spool_dir": corpus.spools, "crawl": CRAWL, "worker": "w", "group_commit": 0.01}
    writer = CorpusWriter(corpus.frontier, corpus.sink, **arguments)  # type: ignore[arg-type]
    await writer.open()
    corpus.write(writer, "w", await corpus.fetch("w"))
    writer.rotate_now()
    await until_async(lambda: writer.failure, 10)
    await until_async(lambda: writer.unpublished == 0, 10)
    await until_async(lambda: writer.failure is None, 10)
    await writer.close()
    said = [record.message for record in caplog.records if "no space left" in record.message]
    assert len(said) == 1
    assert len(corpus.texts()) == 6


@pytest.mark.parametrize("closed", [True, False])
async def test_a_spool_wiped_under_its_worker_costs_fetches_and_no_page(corpus: Corpus, closed: bool) -> None:
    settled: Settled = {}
    writer = await corpus.worker("w", on_settled=recorder(settled))
    leases = await corpus.fetch("w")
    corpus.write(writer, "w", leases[:3])
    if closed:
        writer.rotate_now()
    await writer.commit()
    corpus.write(writer, "w", leases[3:])
    shutil.rmtree(corpus.spools)
    await writer.commit()
    await writer.publish()
    snapshot = await corpus.frontier.snapshot()
    assert (snapshot.queued, snapshot.sealed, snapshot.held) == (3, 3, 0)
    corpus.write(writer, "w", await corpus.fetch("w"))
    await writer.close()
    corpus.workers.remove(writer)
    assert len(corpus.texts()) == 6
    assert (await corpus.frontier.snapshot()).done == 6


@pytest.mark.parametrize("wiped", [True, False])
async def test_rows_that_the_frontier_has_not_answered_for_are_sealed_later_or_given_back(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, wiped: bool
) -> None:
    async def unreachable(*args: object, **arguments: object) -> None:
        raise FrontierUnavailable("connection refused")

    settled: Settled = {}
    writer = await corpus.worker("w", on_settled=recorder(settled))
    leases = await corpus.fetch("w")
    corpus.write(writer, "w", leases)
    with monkeypatch.context() as patch:
        patch.setattr(corpus.frontier, "seal", unreachable)
        writer.rotate_now()
        for _ in range(2):
            with pytest.raises(FrontierUnavailable):
                await writer.commit()
    assert (writer.unsealed, len(writer.known_segments()), settled) == (6, 1, {})
    if wiped:
        shutil.rmtree(corpus.spools)
    await writer.close()
    corpus.workers.remove(writer)
    assert set(settled.values()) == {Answer.ABORTED if wiped else Answer.APPLIED}
    assert len(corpus.texts()) == (0 if wiped else 6)
    assert (await corpus.frontier.snapshot()).queued == (6 if wiped else 0)


async def test_a_spool_that_another_release_wrote_is_left_alone(corpus: Corpus) -> None:
    old = corpus.spools / CRAWL / "old"
    old.mkdir(parents=True)
    body = b'{"v":99}'
    (old / "test-old-000001.journal").write_bytes(b"%08x %s\n" % (zlib.crc32(body), body))
    writer = await corpus.worker("w")
    corpus.write(writer, "w", await corpus.fetch("w"))
    await writer.close()
    assert len(corpus.texts()) == 6
    assert corpus.spool_files() == ["test-old-000001.journal"]


async def test_what_cannot_be_written_is_said_at_the_start(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SinkError, match="file"):
        await corpus.worker("w", sink=DirectorySink(tmp_path / "file"))
    corpus.spools = tmp_path / "file"
    with pytest.raises(SpoolError, match="file"):
        await corpus.worker("w")
