"""The witness: a violation put into a log by hand is found, and the rate is measured against what could be known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawler.demo.profiles import plain
from crawler.demo.witness import Hit, refetched, used_share, violations


def hit(start: float, end: float, host: str = "h1.test", path: str = "/", status: int = 200) -> Hit:
    return Hit(start, end, host, path, status)


def test_a_polite_log_has_no_violations() -> None:
    log = [hit(0.0, 0.1, path="/robots.txt"), hit(1.1, 1.2), hit(2.2, 2.3, "www.h1.test"), hit(0.5, 0.6, "h2.test")]
    assert violations(log, 1.0) == []


@pytest.mark.parametrize(
    "intruder",
    [
        hit(1.9, 1.95, path="/robots.txt"),  # robots.txt counts
        hit(1.9, 1.95, "blog.h1.test"),  # one group
        hit(1.15, 1.16),  # while another is under way
    ],
)
def test_a_violation_put_in_by_hand_is_found(intruder: Hit) -> None:
    log = [hit(0.0, 0.1), hit(1.1, 1.2), intruder, hit(3.0, 3.1)]
    found = violations(log, {"h1.test": 1.0})
    assert len(found) == 1
    assert found[0].second == intruder
    assert intruder.url in str(found[0])


def test_a_short_request_within_a_long_one_does_not_hide_the_long_ones_end() -> None:
    log = [hit(0.0, 10.0), hit(2.0, 2.1), hit(5.0, 5.1)]
    assert [v.second.start for v in violations(log, 1.0)] == [2.0, 5.0]


def test_tolerance_and_delays_by_group() -> None:
    log = [hit(0.0, 0.1), hit(1.095, 1.2), hit(0.0, 0.1, "h2.test"), hit(0.4, 0.5, "h2.test")]
    assert violations(log, {"h1.test": 1.0, "h2.test": 0.2}, tolerance=0.01) == []
    assert len(violations(log, {"h1.test": 1.0, "h2.test": 0.2})) == 1
    with pytest.raises(KeyError):
        violations(log, {"h1.test": 1.0})


def test_the_used_share_is_what_was_needed_over_what_was_taken() -> None:
    log = [hit(0.0, 1.0), hit(2.0, 3.0), hit(6.0, 7.0)]  # needed 2 + 2 of 2 + 4
    assert used_share(log, 1.0) == pytest.approx(4 / 6)
    assert used_share(log, 1.0, within=(0.0, 2.5)) == 1.0
    assert used_share(log[:1], 1.0) == 1.0


def test_waiting_for_a_page_that_nobody_knew_yet_is_no_loss() -> None:
    world = plain(2, 2, 7)
    home = hit(0.0, 0.1, "h1.test")
    assert used_share([home, hit(5.0, 5.1, "h1.test", "/p/1.html")], 1.0, world) == pytest.approx(1.1 / 5)
    robots = hit(0.0, 0.1, path="/robots.txt")  # h0 tells of h1's home page at 4.0
    log = [robots, hit(3.9, 4.0, "h0.test"), hit(5.0, 5.1, "h1.test")]
    assert used_share(log, 1.0) == pytest.approx(1.1 / 5)
    assert used_share(log, 1.0, replace(world, seeds=("http://h0.test/",))) == pytest.approx(4 / 5)


def test_a_page_that_was_asked_for_was_known() -> None:
    world = replace(plain(2, 2, 7), seeds=())
    log = [hit(0.0, 0.1, path="/robots.txt"), hit(5.0, 5.1, path="/p/1.html"), hit(9.0, 9.1, "h0.test")]
    assert used_share(log, 1.0, world) == pytest.approx(1.1 / 5)


def test_refetches_are_counted() -> None:
    log = [hit(0, 1), hit(2, 3), hit(4, 5, path="/once"), hit(6, 7, path="/bad", status=500)]
    assert refetched(log, {"http://h1.test/", "http://h1.test/once", "http://h1.test/bad"}) == {"http://h1.test/": 2}


def test_time_in_which_a_group_was_held_up_from_outside_is_left_out() -> None:
    log = [hit(0.0, 0.0), hit(1.0, 1.0), hit(9.0, 9.0), hit(10.0, 10.0)]
    assert used_share(log, 1.0, disturbed=lambda group, start, end: group == "h1.test" and start < 5.0 < end) == 1.0
    assert used_share(log, 1.0, disturbed=lambda group, start, end: group == "h2.test") < 0.5
