"""add: a URL is queued once, whoever offers it, however often."""

from __future__ import annotations

import pytest

from crawler.errors import BadInput
from crawler.frontier import Added, Completion, Redirect, Wire
from crawler.frontier.policy import MAX_HOPS
from tests.support.frontier import START, AnyFrontier, candidate, granted


@pytest.mark.case("Q02")
@pytest.mark.invariant(1, 7)
async def test_a_url_is_added_once(frontier: AnyFrontier) -> None:
    found = [candidate("http://a.test/1"), candidate("http://b.test/2"), candidate("http://a.test/1")]
    assert await frontier.add(found, now=START) == [Added.ADDED, Added.ADDED, Added.SEEN]
    assert await frontier.add(found, now=START) == [Added.SEEN] * 3
    snapshot = await frontier.snapshot(now=START)
    assert (snapshot.added, snapshot.queued, snapshot.groups, snapshot.due) == (2, 2, 2, 2)


async def test_answers_come_in_the_order_of_the_candidates(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(0, 40, 2)], now=START)
    answers = await frontier.add([candidate(f"http://h{n}.test/") for n in range(40)], now=START)
    assert answers == [Added.SEEN if n % 2 == 0 else Added.ADDED for n in range(40)]


async def test_a_batch_larger_than_a_script_takes(frontier: AnyFrontier) -> None:
    found = [candidate(f"http://a.test/{n}") for n in range(1700)]
    assert set(await frontier.add(found, now=START)) == {Added.ADDED}
    assert set(await frontier.add(found, now=START)) == {Added.SEEN}
    assert (await frontier.snapshot(now=START)).queued == 1700


async def test_extreme_keys_stay_apart(frontier: AnyFrontier) -> None:
    """No number above 2^53 may pass through a Lua number."""
    keys = [2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 2**53, 2**53 + 1, 0, 1, -1]
    found = [candidate(f"http://a.test/{n}", key=key) for n, key in enumerate(keys)]
    assert set(await frontier.add(found, now=START)) == {Added.ADDED}
    assert set(await frontier.add(found, now=START)) == {Added.SEEN}


async def test_an_empty_batch(frontier: AnyFrontier) -> None:
    assert await frontier.add([], now=START) == []


@pytest.mark.parametrize("url", ["ftp://a.test/", "http://a.test", "a.test/", "http:///x", ""])
async def test_what_is_no_url_in_wire_form_is_refused(frontier: AnyFrontier, url: str) -> None:
    with pytest.raises(BadInput, match="wire form"):
        await frontier.add([candidate(url, key=1, group="a.test")], now=START)
    assert (await frontier.snapshot(now=START)).added == 0


@pytest.mark.parametrize(("band", "group"), [(4, "a.test"), (-1, "a.test"), (0, ""), (0, "x" * 256)])
async def test_a_band_or_group_that_cannot_be_is_refused(frontier: AnyFrontier, band: int, group: str) -> None:
    with pytest.raises(BadInput):
        await frontier.add([candidate("http://a.test/", band=band, group=group)], now=START)
    assert (await frontier.snapshot(now=START)).added == 0


@pytest.mark.case("D01")
@pytest.mark.invariant(7)
async def test_a_member_of_its_own_redirect_chain_is_taken_again(frontier: AnyFrontier) -> None:
    """A cookie wall redirects a page to itself: fetched again up to five hops, each hop once however often it is
    carried out."""
    page = candidate("http://a.test/")
    await frontier.add([page], now=START)
    chain: tuple[int, ...] = ()
    now = START
    for hop in range(1, MAX_HOPS + 2):
        lease = (await granted(frontier, 1, now, first=hop))[0]
        assert lease.chain == chain
        chain = (*lease.chain, lease.key)
        target = candidate(page.url, chain=chain)
        await frontier.complete([Completion(lease, "redirect", Wire(0, 0), Redirect(target))], now=now)
        [(partition, token, carried)] = (await frontier.pending(now=now)).outbox
        assert carried == target
        answers = [(await frontier.add([carried], now=now))[0] for _ in range(3)]
        await frontier.ack([(partition, token)])
        if hop > MAX_HOPS:
            assert answers == [Added.SEEN] * 3
            break
        assert answers == [Added.AGAIN, Added.SEEN, Added.SEEN]
        now += 1
    snapshot = await frontier.snapshot(now=now)
    assert (snapshot.queued, snapshot.done, snapshot.outbox, snapshot.added) == (0, 1, 0, 1)


async def test_a_seen_target_outside_its_chain_leaves_the_source_done(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/"), candidate("http://b.test/")], now=START)
    lease = next(le for le in await granted(frontier, 2, START) if le.group == "a.test")
    target = candidate("http://b.test/", chain=(lease.key,))
    await frontier.complete([Completion(lease, "redirect", None, Redirect(target))], now=START)
    assert await frontier.add([target], now=START) == [Added.SEEN]


async def test_what_a_candidate_carries_comes_back_with_its_lease(frontier: AnyFrontier) -> None:
    found = candidate(
        "https://www.a.test:8443/ü%FC?q=1&ü=2",
        band=2,
        depth=7,
        parent="https://b.test/p",
        request={"method": "POST", "body": "eA==", "meta": {"x": [1, None]}},
        visit=3,
        chain=(1, -2),
    )
    await frontier.add([found], now=START)
    lease = (await granted(frontier, 1, START))[0]
    for name in ("url", "group", "band", "depth", "visit", "chain", "request", "parent"):
        assert getattr(lease, name) == getattr(found, name), name
    assert lease.granted_ms == START
    assert lease.deadline_ms == START + 12_000
