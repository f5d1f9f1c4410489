"""fetched, complete, retry, release, bury: each lease ends once (invariant 3), a stale token changes nothing (4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from crawler.frontier import Answer, Burial, Completion, Failure, Handback, Lease, Redirect, State, Wire
from crawler.frontier.policy import KINDS, Pace
from tests.support.frontier import START, AnyFrontier, candidate, granted

WIRE = Wire(0, 1000, Pace(fetched=1).pack())
OUTCOMES: dict[str, Callable[[AnyFrontier, Lease, int], Awaitable[list[Any]]]] = {
    "complete": lambda f, lease, now: f.complete([Completion(lease, "robots")], now=now),
    "retry": lambda f, lease, now: f.retry([Failure(lease, "timeout")], now=now),
    "release": lambda f, lease, now: f.release([lease], now=now),
    "bury": lambda f, lease, now: f.bury([Burial(lease, "pipeline-error")], now=now),
}


async def one(frontier: AnyFrontier, now: int = START, first: int = 0) -> Lease:
    await frontier.add([candidate("http://a.test/1"), candidate("http://a.test/2")], now=now)
    return (await granted(frontier, 1, now, first=first))[0]


@pytest.mark.invariant(3, 4, 7)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("name", OUTCOMES)
async def test_a_lease_has_one_outcome(frontier: AnyFrontier, name: str, held: bool) -> None:
    lease = await one(frontier)
    if held:
        assert await frontier.fetched([(lease, WIRE)], now=START) == [Answer.APPLIED]
    assert await OUTCOMES[name](frontier, lease, START) not in ([Answer.STALE], [None])
    before = await frontier.snapshot(now=START)
    for other in OUTCOMES.values():
        assert await other(frontier, lease, START) in ([Answer.STALE], [None])
    assert await frontier.fetched([(lease, WIRE)], now=START) == [Answer.STALE]
    assert await frontier.snapshot(now=START) == before
    assert before.leased == before.held == 0


@pytest.mark.invariant(4)
@pytest.mark.parametrize("name", OUTCOMES)
async def test_from_sealed_no_outcome_leads_out(frontier: AnyFrontier, name: str) -> None:
    lease = await one(frontier)
    await frontier.fetched([(lease, WIRE)], now=START)
    await frontier.seal("w", [lease], "s", now=START)
    before = await frontier.snapshot(now=START)
    assert await OUTCOMES[name](frontier, lease, START) in ([Answer.STALE], [None])
    assert await frontier.snapshot(now=START) == before


@pytest.mark.invariant(4)
@pytest.mark.parametrize("name", OUTCOMES)
async def test_a_token_that_holds_another_url_is_stale(frontier: AnyFrontier, name: str) -> None:
    lease = await one(frontier)
    for other in (
        replace(lease, record=lease.record + b"x"),
        replace(lease, group="b.test"),
        replace(lease, token=bytes(16)[:-1] + b"\xff"),
    ):
        assert await OUTCOMES[name](frontier, other, START) in ([Answer.STALE], [None])
    assert (await frontier.snapshot(now=START)).leased == 1
    assert await granted(frontier, 1, START, first=99) == [], "the turn of the other URL is not ours to end"


@pytest.mark.invariant(7)
async def test_fetched_twice(frontier: AnyFrontier) -> None:
    lease = await one(frontier)
    assert await frontier.fetched([(lease, WIRE)], now=START) == [Answer.APPLIED]
    assert await frontier.fetched([(lease, Wire(0, 9000))], now=START) == [Answer.ALREADY]
    assert len(await granted(frontier, 1, START + 1000, first=5)) == 1, "the delay is the first call's"


@pytest.mark.invariant(5)
async def test_a_turn_ends_though_the_url_is_gone(frontier: AnyFrontier) -> None:
    """A worker that was given up comes back: its page is not wanted, but its request has ended."""
    lease = await one(frontier)
    now = lease.granted_ms + 9000
    assert (await frontier.reclaim(now=now)).expired == 1
    assert await granted(frontier, 1, now, first=5) == [], "the request may still be under way"
    assert await frontier.fetched([(lease, Wire(0, 500))], now=now + 100) == [Answer.STALE]
    assert len(await granted(frontier, 1, now + 600, first=6)) == 1


@pytest.mark.invariant(5)
@pytest.mark.parametrize("name", OUTCOMES)
async def test_without_a_request_the_group_does_not_wait(frontier: AnyFrontier, name: str) -> None:
    await OUTCOMES[name](frontier, await one(frontier), START)
    assert len(await granted(frontier, 1, START, first=9)) == 1


async def test_an_outcome_can_end_the_turn(frontier: AnyFrontier) -> None:
    lease = await one(frontier)
    await frontier.complete([Completion(lease, "not-found", Wire(300, 2000, b"pace"))], now=START + 1000)
    assert await frontier.group_pace("a.test") == b"pace"
    assert await granted(frontier, 1, START + 2699, first=5) == []
    lease = (await granted(frontier, 1, START + 2700, first=6))[0]
    assert lease.pace == b"pace"


async def test_reasons_are_counted(frontier: AnyFrontier) -> None:
    lease = await one(frontier)
    await frontier.complete([Completion(lease, "robots")], now=START)
    lease = (await granted(frontier, 1, START, first=7))[0]
    await frontier.bury([Burial(lease, "pipeline-error")], now=START)
    assert (await frontier.snapshot(now=START)).reasons == {"robots": 1, "pipeline-error": 1}


async def test_a_redirect_waits_in_the_outbox(frontier: AnyFrontier) -> None:
    lease = await one(frontier)
    target = candidate("https://b.test/there", band=1, depth=2, chain=(lease.key,), request={"method": "HEAD"})
    target = replace(target, key=(await _key_of(frontier, target)))
    await frontier.complete([Completion(lease, "redirect", WIRE, Redirect(target))], now=START)
    assert (await frontier.snapshot(now=START)).outbox == 1
    assert (await frontier.pending(settled_ms=2000, now=START + 1999)).outbox == []
    [(partition, token, carried)] = (await frontier.pending(settled_ms=2000, now=START + 2000)).outbox
    assert (token, carried) == (lease.token, target)
    await frontier.ack([(partition, token)])
    await frontier.ack([(partition, token)])
    assert (await frontier.pending(now=START)).outbox == []


async def _key_of(frontier: AnyFrontier, target: Any) -> int:
    from crawler.frontier.records import candidate_key

    return candidate_key(target.key, target.request, target.visit)


async def test_the_ladder_ends_in_the_dead_letters(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    now, went = START, []
    for number, kind in enumerate(["timeout", "server-error", "truncated"]):
        lease = (await granted(frontier, 1, now, first=number))[0]
        assert len(lease.trail) == number
        went += await frontier.retry([Failure(lease, kind, Wire(0, 0))], now=now)
        if number < 2:
            wait = [30_000, 120_000][number]
            assert await granted(frontier, 1, now + wait - 1, first=50 + number) == []
            now += wait
    assert went == [State.DELAYED, State.DELAYED, State.DEAD]
    [letter] = (await frontier.dead())[0]
    assert letter.reasons == ("timeout", "server-error", "truncated")
    assert (letter.url, letter.buried_ms) == ("http://a.test/", now)
    snapshot = await frontier.snapshot(now=now)
    assert (snapshot.dead, snapshot.reasons) == (1, {"truncated": 1})


async def test_a_retry_waits_at_least_until_not_before(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    lease = (await granted(frontier, 1, START))[0]
    await frontier.retry([Failure(lease, "timeout", None, START + 99_000)], now=START)
    assert (await frontier.snapshot(now=START)).next_due_ms == START + 99_000


async def test_a_retried_url_comes_before_those_that_never_were(frontier: AnyFrontier) -> None:
    lease = await one(frontier)
    await frontier.retry([Failure(lease, "timeout")], now=START)
    again = (await granted(frontier, 1, START + 30_000, first=5))[0]
    assert (again.url, again.trail) == (lease.url, ("timeout",))


async def test_a_failure_of_the_group_costs_its_urls_nothing(frontier: AnyFrontier) -> None:
    await frontier.add([candidate("http://a.test/")], now=START)
    now = START
    for number in range(6):
        lease = (await granted(frontier, 1, now, first=number))[0]
        pace = Pace(failures=number + 1, failing_since_ms=START).pack()
        assert await frontier.retry([Failure(lease, "dns", Wire(0, 5000, pace))], now=now) == [State.QUEUED]
        assert await granted(frontier, 1, now + 4999, first=50 + number) == []
        now += 5000
    assert (await granted(frontier, 1, now, first=99))[0].trail == ("dns",)


async def test_a_dead_host_in_a_living_group_pays_itself(frontier: AnyFrontier) -> None:
    """Else one host name that does not resolve would be tried for ever beside others that answer."""
    await frontier.add([candidate("http://dead.a.test/"), candidate("http://a.test/")], now=START)
    now, went = START, []
    for number in range(4):
        lease = (await granted(frontier, 1, now, first=number))[0]
        if lease.url == "http://a.test/":
            await frontier.complete([Completion(lease, "not-found", Wire(0, 0, Pace().pack()))], now=now)
            lease = (await granted(frontier, 1, now, first=100 + number))[0]
        went += await frontier.retry([Failure(replace(lease, pace=Pace().pack()), "dns", Wire(0, 0))], now=now)
        now += 200_000
    assert went == [State.QUEUED, State.DELAYED, State.DELAYED, State.DEAD]


async def test_a_group_that_fails_for_long_is_offline(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://a.test/{n}") for n in range(1200)], now=START)
    await frontier.add([candidate("http://b.test/")], now=START)
    lease = next(le for le in await granted(frontier, 2, START) if le.group == "a.test")
    late = Wire(0, 0, Pace(failures=9, failing_since_ms=START - 60_000).pack())
    await frontier.retry([Failure(lease, "refused", late)], now=START)
    snapshot = await frontier.snapshot(now=START)
    assert (snapshot.dead, snapshot.queued, snapshot.reasons) == (1200, 0, {"offline": 1200})


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_every_kind_of_failure_leads_somewhere(frontier: AnyFrontier, kind: str) -> None:
    [went] = await frontier.retry([Failure(await one(frontier), kind, WIRE)], now=START)
    assert went in (State.DELAYED, State.QUEUED)


async def test_released_urls_go_to_the_head_in_their_order(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://a.test/{n}") for n in range(4)], now=START)
    held, now = [], START
    for number in range(3):
        held += await granted(frontier, 1, now, first=number)
        await frontier.fetched([(held[-1], Wire(0, 0))], now=now)
        now += 1
    await frontier.release(held, now=now)
    assert await frontier.peek("a.test") == [f"http://a.test/{n}" for n in range(4)]


async def test_release_until_a_time(frontier: AnyFrontier) -> None:
    """Where the group waits that long anyway the URL is queued; where it does not, the URL alone is delayed."""
    lease = await one(frontier)
    await frontier.release([Handback(lease, Wire(0, 5000), START + 4000)], now=START)
    assert (await frontier.snapshot(now=START)).delayed == 0
    lease = (await granted(frontier, 1, START + 5000, first=5))[0]
    await frontier.release([Handback(lease, None, START + 9000)], now=START + 5000)
    assert (await frontier.snapshot(now=START + 5000)).delayed == 1
    other = (await granted(frontier, 1, START + 5000, first=6))[0]
    assert other.url != lease.url


async def test_a_batch_over_several_groups_answers_in_order(frontier: AnyFrontier) -> None:
    await frontier.add([candidate(f"http://h{n}.test/") for n in range(30)], now=START)
    leases = await granted(frontier, 30, START)
    await frontier.bury([Burial(lease, "poison") for lease in leases[::2]], now=START)
    answers = await frontier.release(leases, now=START)
    assert answers == [Answer.STALE, Answer.APPLIED] * 15
