"""What operators see and do."""

from __future__ import annotations

import pytest

from crawler.errors import BadInput
from crawler.frontier import Answer, Burial, Failure, State, Wire
from crawler.frontier.policy import Pace
from tests.contract.conftest import Open
from tests.support.frontier import START, AnyFrontier, candidate, granted


async def test_a_fresh_frontier_has_nothing(frontier: AnyFrontier) -> None:
    snapshot = await frontier.snapshot(now=START)
    assert snapshot.open == snapshot.added == snapshot.groups == 0
    assert snapshot.next_due_ms is None
    assert snapshot.moves == (0, 0)
    assert await frontier.dead() == ([], "")
    assert await frontier.group("a.test") is None
    assert await frontier.group_pace("a.test") == b""


async def test_moves_count_transitions(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    before = sum((await frontier.snapshot(now=START)).moves)
    await frontier.snapshot(now=START)
    await frontier.reclaim(now=START)
    await frontier.heartbeat("w", everywhere=True, now=START)
    assert sum((await frontier.snapshot(now=START)).moves) == before
    await granted(frontier, 1, START)
    assert sum((await frontier.snapshot(now=START)).moves) == before + 1


async def test_groups_by_pages(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=4)
    names = {f"h{n}.test" for n in range(300)}
    await frontier.add([candidate(f"http://{name}/") for name in names], now=START)
    found, cursor = [], ""
    while True:
        page, cursor = await frontier.groups(cursor, 50)
        found += page
        if not cursor:
            break
    assert {info.group for info in found} == names
    assert {info.bands for info in found} == {(1,)}


async def test_peek_shows_what_comes_next(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://a.test/{n}", band=2) for n in range(5)], now=START)
    await frontier.add([candidate("http://a.test/first", band=0)], now=START)
    assert await frontier.peek("a.test", 3) == ["http://a.test/first", "http://a.test/0", "http://a.test/1"]
    assert await frontier.peek("b.test") == []


@pytest.mark.invariant(8)
async def test_blocking(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/1"), candidate("http://b.test/")], now=START)
    await frontier.block("a.test", START + 5000, now=START)
    await frontier.add([candidate("http://a.test/2")], now=START)
    assert [le.group for le in await granted(frontier, 5, START)] == ["b.test"]
    refused = await frontier.reserve(b"r" * 16, "a.test", now=START)
    assert (refused.granted, refused.next_ms) == (False, START + 5000)
    info = await frontier.group("a.test")
    assert info is not None
    assert info.blocked_until_ms == START + 5000
    [lease] = await granted(frontier, 5, START + 5000, first=20)
    assert lease.group == "a.test"


async def test_unblocking(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    await frontier.block("a.test", now=START)
    assert await granted(frontier, 1, START + 10**9) == []
    await frontier.unblock("a.test", now=START)
    assert len(await granted(frontier, 1, START + 10**9, first=5)) == 1


async def test_blocking_a_group_while_it_is_fetched(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://a.test/{n}") for n in range(2)], now=START)
    [lease] = await granted(frontier, 1, START)
    await frontier.block("a.test", START + 5000, now=START)
    await frontier.fetched([(lease, Wire(0, 1000))], now=START)
    assert await granted(frontier, 1, START + 4999, first=5) == []
    assert len(await granted(frontier, 1, START + 5000, first=6)) == 1


async def test_a_least_delay(frontier: AnyFrontier) -> None:
    await frontier.set_delay("a.test", 4.0, now=START)
    await frontier.add([candidate(f"http://a.test/{n}") for n in range(3)], now=START)
    [lease] = await granted(frontier, 1, START)
    await frontier.fetched([(lease, Wire(0, 1000))], now=START)
    assert await granted(frontier, 1, START + 3999, first=5) == []
    [lease] = await granted(frontier, 1, START + 4000, first=5)
    await frontier.set_delay("a.test", 0, now=START + 4000)
    await frontier.fetched([(lease, Wire(0, 1000))], now=START + 4000)
    assert len(await granted(frontier, 1, START + 5000, first=6)) == 1


@pytest.mark.parametrize("call", ["drop", "offline"])
async def test_emptying_a_group(open_frontier: Open, call: str) -> None:
    """Its queued and delayed URLs, in steps; nobody else's, and not what a worker has."""
    frontier = await open_frontier(frontier_partitions=1)
    await frontier.add([candidate(f"http://a.test/{n}", band=n % 2) for n in range(1201)], now=START)
    await frontier.add([candidate("http://b.test/")], now=START)
    leases = await granted(frontier, 2, START)
    await frontier.retry([Failure(lease, "timeout", Wire(0, 0)) for lease in leases], now=START)
    await granted(frontier, 1, START, first=9)
    assert await getattr(frontier, call)("a.test", now=START) == 1200
    snapshot = await frontier.snapshot(now=START)
    settled = {"drop": (1200, 0), "offline": (0, 1200)}[call]
    assert (snapshot.done, snapshot.dead) == settled
    assert (snapshot.queued, snapshot.delayed, snapshot.leased) == (0, 1, 1)
    assert await granted(frontier, 2, START + 1, first=20) == []


async def test_dead_letters_by_pages(open_frontier: Open) -> None:
    frontier = await open_frontier(frontier_partitions=4)
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(60)], now=START)
    leases = await granted(frontier, 60, START)
    await frontier.bury([Burial(lease, "pipeline-error") for lease in leases], now=START)
    found, cursor = [], ""
    while True:
        page, cursor = await frontier.dead(cursor, 7)
        assert len(page) <= 7
        found += page
        if found[:1] == page[:1]:
            await frontier.replay([page[0].id], now=START)  # cursors are stable while letters go
        if not cursor:
            break
    assert {letter.url for letter in found} == {lease.url for lease in leases}
    assert len(found) == 60


@pytest.mark.invariant(7)
async def test_replaying_a_dead_letter(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    now = START
    for number in range(3):
        [lease] = await granted(frontier, 1, now, first=number)
        await frontier.retry([Failure(lease, "timeout")], now=now)
        now += 150_000
    [letter] = (await frontier.dead())[0]
    assert await frontier.replay([letter.id, "0:99999-0", "7:1-0"], now=now) == [Answer.APPLIED, *[Answer.STALE] * 2]
    assert await frontier.replay([letter.id], now=now) == [Answer.STALE]
    [lease] = await granted(frontier, 1, now, first=9)
    assert lease.trail == ("timeout", "timeout", "timeout", "replayed")
    await frontier.retry([Failure(lease, "timeout")], now=now)
    assert (await frontier.snapshot(now=now)).delayed == 1, "its attempts begin anew"


@pytest.mark.parametrize("bad", ["", "1", "0:", "x:1-0", "0:1", "0:1-0 ", "-1:1-0"])
async def test_replaying_what_is_no_letters_id(frontier: AnyFrontier, bad: str) -> None:
    with pytest.raises(BadInput, match="dead letter"):
        await frontier.replay([bad], now=START)


async def test_host_records(frontier: AnyFrontier) -> None:
    await frontier.host_put("a.test", "http://www.a.test:80", b"\x01rules")
    await frontier.host_put("b.test", "https://b.test:443", b"\x00\xff")
    asked = [("b.test", "https://b.test:443"), ("c.test", "http://c.test:80"), ("a.test", "http://www.a.test:80")]
    assert await frontier.host_get(asked) == [b"\x00\xff", None, b"\x01rules"]
    assert await frontier.host_get([]) == []


async def test_a_groups_row_says_what_is_known(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/1", band=0), candidate("http://a.test/2", band=3)], now=START)
    [lease] = await granted(frontier, 1, START)
    pace = Pace(latency_ms=123, fetched=1).pack()
    await frontier.fetched([(lease, Wire(100, 2500, pace))], now=START + 200)
    info = await frontier.group("a.test")
    assert info is not None
    assert (info.turns, info.bands, info.delay_ms) == (0, (3,), 2500)
    assert (info.next_allowed_ms, info.pace) == (START + 2600, pace)


async def test_purging(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(20)], now=START)
    await frontier.purge()
    snapshot = await frontier.snapshot(now=START)
    assert (snapshot.added, snapshot.groups) == (0, 0)
    assert set(await frontier.add([candidate("http://h1.test/")], now=START)) == {"ADDED"}


async def dead_of(frontier: AnyFrontier, *urls: str) -> list[str]:
    """The ids of the letters of URLs that are added and buried, in their order."""
    await frontier.add([candidate(url) for url in urls], now=START)
    leases = await granted(frontier, len(urls), START, first=50)
    await frontier.bury([Burial(lease, "pipeline-error") for lease in leases], now=START)
    ids = {letter.url: letter.id for letter in (await frontier.dead())[0]}
    return [ids[url] for url in urls]


async def test_a_dead_letter_by_its_id(frontier: AnyFrontier) -> None:
    [id_] = await dead_of(frontier, "http://a.test/")
    letter = await frontier.letter(id_)
    assert letter is not None
    assert (letter.id, letter.url, letter.reasons) == (id_, "http://a.test/", ("pipeline-error",))
    assert await frontier.letter("0:99999-0") is await frontier.letter("7:1-0") is None
    with pytest.raises(BadInput, match="dead letter"):
        await frontier.letter("1")


async def test_discarding_dead_letters(frontier: AnyFrontier) -> None:
    first, second = await dead_of(frontier, "http://a.test/", "http://b.test/")
    before = sum((await frontier.snapshot(now=START)).moves)
    assert await frontier.discard([first, "7:1-0"], now=START) == [Answer.APPLIED, Answer.STALE]
    assert await frontier.discard([first], now=START) == [Answer.STALE]
    snapshot = await frontier.snapshot(now=START)
    assert (snapshot.done, snapshot.dead, sum(snapshot.moves)) == (1, 1, before + 1)
    assert [letter.id for letter in (await frontier.dead())[0]] == [second]
    assert await frontier.add([candidate("http://a.test/")], now=START) == ["SEEN"]
    with pytest.raises(BadInput, match="dead letter"):
        await frontier.discard([second, "1"], now=START)


async def test_forgetting_what_is_settled(frontier: AnyFrontier) -> None:
    """Done or dead: the next add takes it as new, and the counters are as if it had never been."""
    await dead_of(frontier, "http://a.test/dead")
    await frontier.add([candidate("http://a.test/done"), candidate("http://b.test/")], now=START)
    await frontier.drop("a.test", now=START)
    before = await frontier.snapshot(now=START)
    assert await frontier.forget("http://a.test/done", "a.test", now=START) is State.DONE
    assert await frontier.forget("http://a.test/dead", "a.test", now=START) is State.DEAD
    assert await frontier.forget("http://a.test/dead", "a.test", now=START) is State.UNKNOWN
    after = await frontier.snapshot(now=START)
    assert (after.added, after.done, after.dead, after.queued) == (1, 0, 0, 1)
    assert sum(after.moves) == sum(before.moves) + 2
    assert await frontier.dead() == ([], "")
    again = [candidate("http://a.test/done"), candidate("http://a.test/dead"), candidate("http://b.test/")]
    assert await frontier.add(again, now=START) == ["ADDED", "ADDED", "SEEN"]


async def test_what_is_not_settled_is_not_forgotten(frontier: AnyFrontier) -> None:
    url, group = "http://a.test/", "a.test"

    async def kept(state: State) -> None:
        moves = (await frontier.snapshot(now=START)).moves
        assert await frontier.forget(url, group, now=START) is state
        assert (await frontier.snapshot(now=START)).moves == moves
        assert await frontier.add([candidate(url)], now=START) == ["SEEN"]

    assert await frontier.forget(url, group, now=START) is State.UNKNOWN
    await frontier.add([candidate(url)], now=START)
    await kept(State.QUEUED)
    [lease] = await granted(frontier, 1, START)
    await kept(State.LEASED)
    await frontier.retry([Failure(lease, "timeout", Wire(0, 0))], now=START)
    await kept(State.DELAYED)
    [lease] = await granted(frontier, 1, START + 200_000, first=5)
    await frontier.fetched([(lease, Wire(0, 0))], now=START + 200_000)
    await frontier.seal("w", [lease], "segment", now=START + 200_000)
    await kept(State.SEALED)


async def test_a_forgotten_url_voids_what_workers_remember(open_real: Open) -> None:
    frontier = await open_real(frontier_partitions=1)
    await dead_of(frontier, "http://a.test/")
    epochs = dict(frontier.epochs)
    await frontier.forget("http://a.test/", "a.test", now=START)
    await frontier.add([candidate("http://b.test/")], now=START)
    assert frontier.epochs != epochs
