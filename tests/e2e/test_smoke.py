"""The smallest crawl that shows the whole: five seeds, three of one key, one forbidden."""

from __future__ import annotations

from pathlib import Path

from crawler.frontier import Candidate, Frontier, Wire
from crawler.options import Options
from crawler.urls import fingerprint
from tests.support.crawl import documents
from tests.support.runs import assert_settled, crawl_of
from tests.support.servers import RedisServer
from tests.support.site import Say, page, serve_site


def test_five_seeds_of_which_three_are_one_and_one_is_forbidden_lead_to_two_pages(
    valkey: RedisServer, tmp_path: Path
) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(
        "http://one.test/page?b=2&a=1\n"
        "http://ONE.test:80/page?a=1&b=2#part\n"
        "http://one.test/x/../page?a=1&utm_source=mail&b=2\n"
        "http://two.test/\n"
        "http://two.test/private/diary\n"
    )
    rules = Say("User-agent: *\nDisallow: /private/\n", headers={"Content-Type": "text/plain"})
    answers = {"one.test/page?b=2&a=1": page(), "two.test/": page(), "two.test/robots.txt": rules}
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path / "crawl", "smoke") as crawl:
        crawl.run("broad", {"seeds": seeds})
        snapshot = crawl.snapshot()
        rows = list(documents(crawl.output))
    assert_settled(snapshot)
    assert (snapshot.added, snapshot.done, snapshot.dead) == (3, 3, 0)
    assert snapshot.reasons["robots"] == 1
    assert sorted(row["url"] for row in rows) == ["http://one.test/page?b=2&a=1", "http://two.test/"]
    assert sorted(hit.url for hit in site.hits) == [
        "http://one.test/page?b=2&a=1",
        "http://one.test/robots.txt",
        "http://two.test/",
        "http://two.test/robots.txt",
    ]


async def test_leases_rotate_over_groups_and_a_group_is_refused_until_its_delay_has_passed(valkey: RedisServer) -> None:
    """The frontier alone, on a clock of the test's."""
    urls = [f"http://{group}.test/{number}" for group in "abc" for number in range(3)]
    async with valkey.client() as client:
        frontier = await Frontier.open(client, Options(crawl_id="rotation"))
        now = 1_800_000_000_000
        await frontier.add([Candidate(url, fingerprint(url), f"{url[7]}.test") for url in urls], now=now)
        for turn in range(3):
            reply = await frontier.lease([bytes([turn, n]) + bytes(14) for n in range(9)], "worker", now=now)
            assert sorted(lease.group for lease in reply.leases) == ["a.test", "b.test", "c.test"]
            again = await frontier.lease([bytes([9, turn]) + bytes(14)], "worker", now=now)
            assert list(again.leases) == [], "each group's turn is taken"
            await frontier.fetched([(lease, Wire(0, 1000)) for lease in reply.leases], now=now)
            early = await frontier.lease([bytes([8, turn]) + bytes(14)], "worker", now=now + 999)
            assert list(early.leases) == [], "the delay has not passed"
            now += 1000
        snapshot = await frontier.snapshot(now=now)
        assert (snapshot.queued, snapshot.held) == (0, 9)
