"""Spiders of Scrapy's tutorial kind through the frontier: what they may ask for, and how each page ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawler.frontier import Snapshot
from tests.support.runs import Crawl, Run, assert_settled, crawl_of
from tests.support.servers import RedisServer
from tests.support.site import Say, Site, moved, page, serve_site

FAST = {"RETRY_DELAYS": "0.1", "MAX_ATTEMPTS": 2}
ROBOTS = Say("", 404)


@dataclass
class Done:
    """A crawl that has ended, looked at by many tests."""

    run: Run
    site: Site
    snapshot: Snapshot
    dead: dict[str, tuple[str, ...]]

    def items(self, **values: object) -> list[dict[str, object]]:
        return [item for item in self.run.items if values.items() <= item.items()]

    def urls(self, at: str) -> list[object]:
        return sorted(str(item["url"]).removeprefix("http://quotes.test") for item in self.items(at=at))


def done(crawl: Crawl, spider: str, **settings: object) -> Done:
    return Done(crawl.run(spider, **settings), crawl.site, crawl.snapshot(), crawl.dead())


@pytest.fixture(scope="module")
def tutorial(valkey: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    names = ("form", "json", "again", "2", "3", "head", "landed", "missing-instead", "always-500-instead")
    answers: dict[str, Say | list[Say]] = {f"quotes.test/{name}": page() for name in names}
    answers |= {
        "quotes.test/robots.txt": ROBOTS,
        "quotes.test/": page("/2", "/3", "/2", "/"),
        "quotes.test/wanted-404": Say("nothing here", 404),
        "quotes.test/always-500": Say("oh", 500),
        "quotes.test/hangs-up": Say(status=0),
        "quotes.test/hangs-up-instead": page(),
        "quotes.test/comes-back": [Say("oh", 500), page()],
        "quotes.test/moved": moved("/landed", 301),
    }
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path_factory.mktemp("crawl"), "tutorial") as crawl:
        yield done(crawl, "tutorial", COOKIES_ENABLED=True, **FAST)


@pytest.fixture(scope="module")
def trouble(valkey: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    class Anything(dict[str, Say]):
        def get(self, place: str, default: object = None) -> Say:  # type: ignore[override]
            return super().get(place, page())

    answers = {"quotes.test/robots.txt": ROBOTS, "quotes.test/retry-me": [Say("busy"), page()]}
    answers["quotes.test/errback-raises"] = Say("", 404)
    with serve_site({}) as site, crawl_of(site, valkey, tmp_path_factory.mktemp("crawl"), "trouble") as crawl:
        site.answers = Anything(answers)
        yield done(crawl, "trouble", **FAST)


class TestAsking:
    def test_every_lease_has_ended_once(self, tutorial: Done) -> None:
        assert_settled(tutorial.snapshot)
        assert tutorial.run.reason == "finished"

    def test_a_start_request_given_twice_is_one_fetch(self, tutorial: Done) -> None:
        assert tutorial.site.count("quotes.test/") == 1

    def test_callbacks_are_found_by_name_and_get_what_was_given_along(self, tutorial: Done) -> None:
        assert tutorial.items(at="list") == [{"at": "list", "number": 1, "tag": {"of": [1, "two"]}, "depth": 0}]
        first = next(asked for asked in tutorial.site.asked if asked.path == "/")
        assert first.headers["X-Mine"] == "1"
        assert first.headers["Cookie"] == "taste=sweet"

    def test_links_are_followed_once(self, tutorial: Done) -> None:
        assert [tutorial.site.count(f"quotes.test/{path}") for path in ("2", "3")] == [1, 1]

    def test_items_of_start_reach_the_feed(self, tutorial: Done) -> None:
        assert tutorial.items(at="start") == [{"at": "start"}]

    def test_bodies_belong_to_the_key(self, tutorial: Done) -> None:
        posts = [asked.body for asked in tutorial.site.asked if asked.path == "/form"]
        assert sorted(posts) == [b"body=a", b"body=b"]
        assert [asked.body for asked in tutorial.site.asked if asked.path == "/json"] == [b'{"x": [1]}']

    def test_dont_filter_is_a_new_visit_each_time(self, tutorial: Done) -> None:
        assert tutorial.site.count("quotes.test/again") == 2

    def test_methods_are_kept(self, tutorial: Done) -> None:
        assert tutorial.items(at="echo", method="HEAD", status=200)

    def test_a_redirect_keeps_what_the_callback_needs_and_drops_credentials(self, tutorial: Done) -> None:
        assert tutorial.items(at="echo", url="http://quotes.test/landed", kept="by redirects")
        asked = {asked.path: asked for asked in tutorial.site.asked}
        assert "Authorization" in asked["/moved"].headers
        assert "Authorization" not in asked["/landed"].headers

    def test_a_status_that_the_request_wants_comes_to_its_callback(self, tutorial: Done) -> None:
        assert tutorial.items(at="echo", url="http://quotes.test/wanted-404", status=404)

    def test_an_errback_hears_of_what_is_final_and_goes_on(self, tutorial: Done) -> None:
        heard = {str(item["url"]).rpartition("/")[2]: item["error"] for item in tutorial.items(at="errback")}
        assert heard == {"missing": "HttpError", "always-500": "HttpError", "hangs-up": "FetchError"}
        assert {f"/{name}-instead" for name in heard} <= set(tutorial.urls("echo"))

    def test_a_failure_is_tried_again_first(self, tutorial: Done) -> None:
        assert tutorial.site.count("quotes.test/always-500") == 2
        assert tutorial.site.count("quotes.test/comes-back") == 2
        assert "/comes-back" in tutorial.urls("echo")

    def test_what_fails_to_the_end_is_a_dead_letter_with_its_reasons(self, tutorial: Done) -> None:
        assert tutorial.dead == {
            "http://quotes.test/always-500": ("server-error", "server-error"),
            "http://quotes.test/hangs-up": ("reset", "reset"),
        }

    def test_what_cannot_be_stored_is_refused_by_name_and_the_crawl_goes_on(self, tutorial: Done) -> None:
        log = tutorial.run.log
        assert "callback of <GET http://quotes.test/lambda> is not a method of spider 'tutorial'" in log
        assert "meta of <GET http://quotes.test/object> is not JSON: {'thing': <object object" in log
        assert tutorial.run.stat("links/refused/not-serialisable") == 2
        assert tutorial.site.count("quotes.test/lambda") + tutorial.site.count("quotes.test/object") == 0

    def test_only_http_is_asked_for(self, tutorial: Done) -> None:
        assert tutorial.run.stat("links/refused/invalid-url") == 1
        assert "root:" not in tutorial.run.log


class TestTrouble:
    def test_every_lease_has_ended_once(self, trouble: Done) -> None:
        assert_settled(trouble.snapshot)
        assert trouble.run.reason == "finished"

    def test_bugs_are_tried_again_and_then_dead_with_their_reasons(self, trouble: Done) -> None:
        bugs = ("raises_first", "raises_late", "raises_async", "raises_in_async_generator")
        expected = {f"http://quotes.test/{name}": ("callback-error", "callback-error") for name in bugs}
        expected["http://quotes.test/boom"] = ("pipeline-error", "pipeline-error")
        for name in ("middleware-raises", "middleware-raises-with-errback"):
            expected[f"http://quotes.test/{name}"] = ("bad-response", "bad-response")
        expected["http://quotes.test/errback-raises"] = ("callback-error", "callback-error")
        assert trouble.dead == expected
        for url in expected:
            assert trouble.site.count(url.removeprefix("http://")) == 2

    def test_what_came_before_a_bug_counts(self, trouble: Done) -> None:
        assert trouble.items(item="before the bug")
        assert trouble.site.count("quotes.test/child-of-raises-late") == 1

    def test_a_dropped_item_is_no_failure(self, trouble: Done) -> None:
        assert trouble.site.count("quotes.test/drop") == 1
        assert not trouble.items(item="drop")

    @pytest.mark.parametrize("item", ["good", "from a coroutine", "from an async generator", "alone"])
    def test_callbacks_of_every_shape_give_their_items(self, trouble: Done, item: str) -> None:
        assert trouble.items(item=item)

    @pytest.mark.parametrize("path", ["/child-of-coroutine", "/child-of-generator", "/alone"])
    def test_callbacks_of_every_shape_give_their_requests(self, trouble: Done, path: str) -> None:
        assert path in trouble.urls("echo")

    def test_ignored_requests_are_done_without_an_attempt(self, trouble: Done) -> None:
        for name in ("ignored-late", "ignored-late-with-errback", "ignores"):
            assert trouble.site.count(f"quotes.test/{name}") == 1
        assert trouble.site.count("quotes.test/ignored-early") == 0
        assert trouble.snapshot.reasons["filtered"] == 5

    def test_an_errback_hears_of_ignored_requests_and_may_go_on(self, trouble: Done) -> None:
        heard = {str(item["url"]).rpartition("/")[2]: item["error"] for item in trouble.items(at="errback")}
        assert heard == {
            "ignored-early-with-errback": "IgnoreRequest",
            "ignored-late-with-errback": "IgnoreRequest",
            "middleware-raises-with-errback": "ValueError",
        }
        assert {"/pardoned-early-with-errback", "/pardoned-late-with-errback"} <= set(trouble.urls("echo"))

    def test_a_middleware_may_swap_a_request_for_another(self, trouble: Done) -> None:
        assert trouble.site.count("quotes.test/swapped-early") == 0
        assert trouble.items(url="http://quotes.test/swapped-early-for-this", swapped=True)

    def test_a_middleware_may_ask_again_in_another_way(self, trouble: Done) -> None:
        asked = [asked.headers.get("X-Solved") for asked in trouble.site.asked if asked.path == "/captcha"]
        assert asked == [None, "1"]
        assert "/captcha" in trouble.urls("echo")

    def test_a_middleware_may_ask_again_in_the_same_way(self, trouble: Done) -> None:
        assert trouble.site.count("quotes.test/retry-me") == 2
        assert "/retry-me" in trouble.urls("echo")


def test_a_spider_may_close_itself_and_the_next_start_goes_on(valkey: RedisServer, tmp_path: Path) -> None:
    answers = {f"site{number}.test/": page() for number in range(20)}
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path, "closer") as crawl:
        run = crawl.run("closer")
        assert run.reason == "seen_enough"
        snapshot = crawl.snapshot()
        assert (snapshot.leased, snapshot.held) == (0, 0)
        assert snapshot.done + snapshot.queued == snapshot.added
        given = [item["url"] for item in run.items]
        rest = crawl.run("follower", {"first": "http://site0.test/"})
        given += [item["url"] for item in rest.items]
        assert_settled(crawl.snapshot())
    assert sorted(given) == sorted(f"http://site{number}.test/" for number in range(20))


def test_start_requests_of_several_workers_are_one(valkey: RedisServer, tmp_path: Path) -> None:
    answers: dict[str, Say] = {f"site{number}.test/": page() for number in range(20)}
    with serve_site(answers) as site, crawl_of(site, valkey, tmp_path, "fleet") as crawl:
        first = ",".join(f"http://site{number}.test/" for number in range(20))
        runs = [crawl.start("follower", {"first": first}) for _ in range(3)]
        assert [run.wait(60) for run in runs] == [0, 0, 0]
        assert_settled(crawl.snapshot())
        for number in range(20):
            assert site.count(f"site{number}.test/") == 1
            assert site.count(f"site{number}.test/robots.txt") == 1
    assert sorted(item["url"] for run in runs for item in run.items) == sorted(first.split(","))
