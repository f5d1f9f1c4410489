"""Publication on a real server: whatever dies at whatever step, every page stands exactly once, by manifest."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import redis.asyncio

from crawler.frontier import Answer, Decision, Frontier, Named, Sealed, Wire
from crawler.options import Options
from crawler.storage import sealing
from crawler.storage.segments import Segment
from crawler.storage.verify import verify
from tests.support.corpus import CRAWL, Corpus, Crash, CrashPoint, Settled, VirtualClock, recorder, urls

HOUR_MS = 3_600_000


@pytest.fixture
async def corpus(redis_client: redis.asyncio.Redis, tmp_path: Path) -> AsyncIterator[Corpus]:
    clock = VirtualClock()
    options = Options(crawl_id=CRAWL, frontier_partitions=3, download_delay=0.0)
    frontier = await Frontier.open(redis_client, options, clock=clock, sleep=clock.sleep)
    corpus = Corpus(tmp_path, frontier)
    yield corpus
    for writer in list(corpus.workers):
        corpus.kill(writer)
    await frontier.close()


async def work_until_done(corpus: Corpus, name: str, now: int) -> None:
    """A worker that adopts what others left, takes back what they held, and fetches what is left."""
    writer = await corpus.worker(name)
    await writer.publish()
    await writer.carry_pending()
    await writer.abort((await corpus.frontier.reclaim(now=now)).segments)
    for hours in range(1, 5):
        corpus.write(writer, name, await corpus.fetch(name, now=now + hours * HOUR_MS))
        writer.rotate_now()
        await writer.commit()
        await writer.publish()
    await writer.close()
    corpus.workers.remove(writer)


async def check_finished(corpus: Corpus, count: int) -> None:
    snapshot = await corpus.frontier.snapshot()
    assert (snapshot.done, snapshot.open) == (count, 0)
    assert corpus.spool_files() == []


@pytest.mark.invariant(7)
async def test_a_crash_between_any_two_steps_costs_no_page_and_doubles_none(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call to frontier and sink, and every deletion in the spool, is in turn the first one that is not made."""
    root, delete = corpus.root, Segment.delete
    point = CrashPoint()
    monkeypatch.setattr(Segment, "delete", lambda segment: (point.step("delete"), delete(segment)))
    for at in range(100):
        corpus = Corpus(root / f"crash{at}", corpus.frontier)
        await corpus.frontier.purge()
        await corpus.add(urls(8))
        point = CrashPoint(at)
        try:
            await first_life(corpus, point)
        except Crash:
            pass
        else:
            break
        for writer in list(corpus.workers):
            corpus.kill(writer)
        point = CrashPoint()
        await work_until_done(corpus, "second", corpus.now_ms + HOUR_MS)
        texts = corpus.texts()
        assert sorted(texts) == urls(8)
        assert texts[urls(8)[0]] == "second"
        await check_finished(corpus, 8)
    assert {"seal", "put", "decide", "settle", "show", "put_manifest", "finished", "delete"} <= set(point.calls)


async def first_life(corpus: Corpus, point: CrashPoint) -> None:
    """Two segments, one with a row of a stale token, until the crash."""
    leases = await corpus.fetch("first")
    stale = next(lease for lease in leases if lease.url == urls(8)[0])
    await corpus.frontier.release([stale])
    writer = await corpus.worker("first", frontier=point.watch(corpus.frontier), sink=point.watch(corpus.sink))
    for part in (leases[:5], leases[5:]):
        corpus.write(writer, "first", part)
        writer.rotate_now()
        await writer.commit()
    await writer.publish()
    await writer.close()


@pytest.mark.invariant(4)
async def test_a_stale_row_is_struck_and_the_owners_row_stands(corpus: Corpus) -> None:
    await corpus.add(urls(3))
    settled: Settled = {}
    slow = await corpus.worker("slow", on_settled=recorder(settled))
    leases = await corpus.fetch("slow")
    await corpus.frontier.release([leases[0]])
    fast = await corpus.worker("fast")
    corpus.write(fast, "fast", await corpus.fetch("fast"))
    await fast.close()
    corpus.write(slow, "slow", leases)
    await slow.close()
    assert corpus.texts() == {lease.url: "fast" if lease is leases[0] else "slow" for lease in leases}
    assert settled == {lease.token: Answer.STALE if lease is leases[0] else Answer.APPLIED for lease in leases}
    await check_finished(corpus, 3)


async def test_without_the_provisional_rule_a_stale_row_is_not_published_either(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant that strikes nothing is stopped by the count of sealed tokens."""
    monkeypatch.setattr(sealing, "is_struck", lambda answer: False)
    await corpus.add(urls(3))
    writer = await corpus.worker("w")
    leases = await corpus.fetch("w")
    await corpus.frontier.release([leases[0]])
    corpus.write(writer, "w", leases)
    await writer.close()
    assert corpus.texts() == {}
    assert (await corpus.frontier.snapshot()).queued == 3


async def test_a_segment_that_lost_rows_is_aborted(corpus: Corpus) -> None:
    await corpus.add(urls(4))
    writer = await corpus.worker("w")
    leases = await corpus.fetch("w")
    for part in (leases[:2], leases[2:]):
        corpus.write(writer, "w", part)
        await writer.commit()
    corpus.kill(writer)
    [journal] = corpus.spools.rglob("*.journal")
    journal.write_bytes(journal.read_bytes()[:-1])
    heir = await corpus.worker("heir")
    await heir.publish()
    assert corpus.texts() == {}
    snapshot = await corpus.frontier.snapshot()
    assert (snapshot.queued, snapshot.sealed, snapshot.pending) == (4, 0, 0)
    assert corpus.spool_files() == []


async def test_a_lost_row_and_a_stale_one_do_not_make_up_for_each_other(corpus: Corpus) -> None:
    """As many tokens are sealed as rows are left: only sealing again tells that they are not the same."""
    await corpus.add(urls(4))
    writer = await corpus.worker("w")
    leases = await corpus.fetch("w")
    corpus.write(writer, "w", leases[:3])
    await corpus.frontier.release([leases[0]])
    await writer.commit()
    corpus.write(writer, "w", leases[3:])
    await writer.commit()
    corpus.kill(writer)
    [journal] = corpus.spools.rglob("*.journal")
    journal.write_bytes(journal.read_bytes()[:-1])
    await (await corpus.worker("heir")).publish()
    assert corpus.texts() == {}
    assert (await corpus.frontier.snapshot()).queued == 4


async def test_an_adopter_finishes_what_was_decided(corpus: Corpus) -> None:
    await corpus.add(urls(4))
    writer = await corpus.worker("w", sink=CrashPoint(name="show").watch(corpus.sink))
    corpus.write(writer, "w", await corpus.fetch("w"))
    writer.rotate_now()
    await writer.commit()
    with pytest.raises(Crash):
        await writer.publish()
    corpus.kill(writer)
    await (await corpus.worker("heir")).publish()
    assert len(corpus.texts()) == 4
    await check_finished(corpus, 4)


async def test_an_output_that_was_removed_after_the_decision_is_made_again_from_the_spool(corpus: Corpus) -> None:
    await corpus.add(urls(4))
    writer = await corpus.worker("w", sink=CrashPoint(name="show").watch(corpus.sink))
    corpus.write(writer, "w", await corpus.fetch("w"))
    writer.rotate_now()
    await writer.commit()
    with pytest.raises(Crash):
        await writer.publish()
    corpus.kill(writer)
    shutil.rmtree(corpus.sink.root)
    await (await corpus.worker("heir")).publish()
    assert len(corpus.texts()) == 4
    await check_finished(corpus, 4)


async def test_a_spool_that_comes_back_after_the_abort_is_thrown_away(corpus: Corpus) -> None:
    await corpus.add(urls(4))
    writer = await corpus.worker("w")
    corpus.write(writer, "w", await corpus.fetch("w"))
    await writer.commit()
    [segment] = writer.known_segments()
    corpus.kill(writer)
    other = await corpus.worker("other")
    await other.abort([segment])
    assert (await corpus.frontier.snapshot()).queued == 4
    await other.publish()
    assert (corpus.texts(), corpus.spool_files()) == ({}, [])
    assert len(list(corpus.sink.keys("fetchlog"))) == 1


async def test_rows_of_a_segment_that_was_aborted_under_its_worker_are_released(corpus: Corpus) -> None:
    await corpus.add(urls(4))
    settled: Settled = {}
    writer = await corpus.worker("w", on_settled=recorder(settled))
    leases = await corpus.fetch("w")
    corpus.write(writer, "w", leases[:2])
    await writer.commit()
    other = await corpus.worker("other")
    await other.abort(writer.known_segments())
    corpus.write(writer, "w", leases[2:])
    await writer.commit()
    assert [settled[lease.token] for lease in leases] == [Answer.APPLIED] * 2 + [Answer.ABORTED] * 2
    assert (await corpus.frontier.snapshot()).queued == 4
    corpus.write(writer, "w", await corpus.fetch("w"))
    await writer.close()
    assert len(corpus.texts()) == 4
    await check_finished(corpus, 4)


async def test_a_decision_whose_worker_and_spool_are_gone_is_carried_out_with_its_own_manifest(corpus: Corpus) -> None:
    await corpus.add(urls(4))
    writer = await corpus.worker("w", sink=CrashPoint(name="show").watch(corpus.sink))
    corpus.write(writer, "w", await corpus.fetch("w"))
    writer.rotate_now()
    await writer.commit()
    with pytest.raises(Crash):
        await writer.publish()
    [segment] = writer.known_segments() - {writer._open.name}
    corpus.kill(writer)
    decided = await corpus.frontier.decision(segment)
    assert decided is not None
    assert decided.decision is Decision.PUBLISHED
    for path in corpus.spools.rglob("*.gz"):
        path.unlink()
    other = await corpus.worker("other", wall=lambda: 0.0)
    for _ in range(2):
        await other.carry_pending()
        assert corpus.sink.read_manifest(segment).decode() == decided.manifest
    await other.publish()
    assert len(corpus.texts()) == 4
    await check_finished(corpus, 4)


@pytest.mark.invariant(8)
async def test_seals_that_the_server_forgot_are_made_again(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that comes back without its last second: the reply was given, the transition is undone."""
    await corpus.add(urls(4))
    writer = await corpus.worker("w")
    corpus.write(writer, "w", await corpus.fetch("w"))

    async def forgotten(worker: str, rows: Sequence[Named], segment: str, *, strict: bool) -> Sealed:
        monkeypatch.undo()
        return Sealed([Answer.APPLIED] * len(rows), len(rows))

    monkeypatch.setattr(corpus.frontier, "seal", forgotten)
    writer.rotate_now()
    await writer.commit()
    assert (await corpus.frontier.snapshot()).held == 4
    await writer.close()
    assert len(corpus.texts()) == 4
    await check_finished(corpus, 4)


@pytest.mark.invariant(8)
async def test_a_fetch_that_the_server_forgot_is_struck(corpus: Corpus) -> None:
    """The URL is leased again: its row cannot stand, and the worker goes on."""
    await corpus.add(urls(3))
    writer = await corpus.worker("w")
    leases = (await corpus.frontier.lease([bytes(16), bytes(15) + b"1", bytes(15) + b"2"], "w")).leases
    await corpus.frontier.fetched([(lease, Wire(0, 0)) for lease in leases[1:]])
    corpus.write(writer, "w", list(leases))
    await writer.close()
    assert sorted(corpus.texts()) == sorted(lease.url for lease in leases[1:])


@pytest.mark.parametrize("decide", [True, False])
async def test_only_what_is_decided_is_swept(corpus: Corpus, decide: bool) -> None:
    await corpus.add(urls(2))
    writer = await corpus.worker("w", frontier=CrashPoint(name="decide").watch(corpus.frontier))
    corpus.write(writer, "w", await corpus.fetch("w"))
    writer.rotate_now()
    await writer.commit()
    with pytest.raises(Crash):
        await writer.publish()
    [segment] = writer.known_segments() - {writer._open.name}
    assert len(list(corpus.sink.staged())) == 2
    other = await corpus.worker("other")
    if decide:
        await other.abort([segment])
    await other.publish()
    assert len(list(corpus.sink.staged())) == (0 if decide else 2)


async def test_a_segment_half_deleted_is_not_published_again(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    await corpus.add(urls(4))
    writer = await corpus.worker("w")
    corpus.write(writer, "w", await corpus.fetch("w"))
    writer.rotate_now()
    await writer.commit()

    def die(segment: Segment) -> None:
        segment.files()[0].unlink()
        raise Crash

    monkeypatch.setattr(Segment, "delete", die)
    with pytest.raises(Crash):
        await writer.publish()
    monkeypatch.undo()
    corpus.kill(writer)
    await (await corpus.worker("heir")).publish()
    assert len(corpus.texts()) == 4
    assert verify(corpus.sink).manifests == 1
    await check_finished(corpus, 4)
