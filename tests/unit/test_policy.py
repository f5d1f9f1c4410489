"""What failures cost, how a group is paced, which URL comes first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.policy import (
    BY_CODE,
    KINDS,
    MAX_HOPS,
    TIMEOUTS_IN_A_ROW,
    Cost,
    Fate,
    Found,
    Pace,
    Response,
    after_failure,
    attempts,
    band_of_turn,
    cost_of,
    expiries,
    is_offline,
    next_pace,
    priority,
    retry_delay,
)
from crawler.frontier.states import COUNTED, TRANSITIONS, State
from crawler.options import Options

OPTIONS = Options(retry_delays=(30.0, 120.0, 300.0, 900.0), max_attempts=5, download_delay=1.0, delay_jitter=0.0)
NOW = 1_700_000_000_000
OK = Response(NOW, latency=0.2, status=200)


# Failures


@pytest.mark.parametrize(
    ("kind", "cost"),
    [
        ("dns", Cost.GROUP),
        ("refused", Cost.GROUP),
        ("tls", Cost.GROUP),
        ("robots-unreachable", Cost.GROUP),
        ("throttled", Cost.GROUP),
        ("timeout", Cost.URL),
        ("server-error", Cost.URL),
        ("truncated", Cost.URL),
        ("decode", Cost.URL),
        ("callback-error", Cost.URL),
        ("not-found", Cost.ANSWER),
        ("robots", Cost.ANSWER),
        ("filtered", Cost.ANSWER),
        ("cancelled", Cost.NONE),
        ("never heard of", Cost.URL),
    ],
)
def test_who_pays(kind: str, cost: Cost) -> None:
    assert cost_of(kind, 0) is cost


def test_timeouts_in_a_row_are_the_groups() -> None:
    assert cost_of("timeout", TIMEOUTS_IN_A_ROW - 1) is Cost.URL
    assert cost_of("timeout", TIMEOUTS_IN_A_ROW) is Cost.GROUP


def test_the_ladder_as_documented() -> None:
    trail: list[str] = []
    fates = []
    for _ in range(5):
        fates.append(after_failure(trail, "server-error", 0, OPTIONS, 0.0))
        trail.append("server-error")
    code = KINDS["server-error"].code
    assert fates[:4] == [Fate(State.DELAYED, code, delay) for delay in (30.0, 120.0, 300.0, 900.0)]
    assert fates[4] == Fate(State.DEAD, code)


def test_attempts_begin_anew_after_a_replay() -> None:
    assert attempts(["timeout", "timeout", "replayed", "timeout"]) == 1
    assert expiries(["expired", "replayed", "expired", "expired", "timeout"]) == 2
    assert expiries(["expired", "replayed"]) == 0


def test_expiries_and_the_first_failure_of_a_group_are_no_attempts() -> None:
    assert attempts(["expired", "dns", "expired"]) == 0
    assert attempts(["dns", "timeout", "dns"]) == 2


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=40), st.booleans())
def test_no_url_is_tried_for_ever_in_a_group_that_answers(kinds: list[str], answering: bool) -> None:
    """Whatever fails, in whatever order, ends after MAX_ATTEMPTS charged failures and one that was not."""
    trail: list[str] = []
    tried = 0
    while True:
        kind = kinds[tried % len(kinds)]
        if cost_of(kind, 0) is Cost.NONE:
            kind = "timeout"
        fate = after_failure(trail, kind, 0, OPTIONS, 0.0)
        tried += 1
        if fate.code is not None:
            trail.append(BY_CODE[fate.code].name)
        if fate.state is State.DEAD:
            break
    assert tried <= OPTIONS.max_attempts + 1


@pytest.mark.parametrize(("attempt", "delay"), [(1, 30.0), (2, 120.0), (4, 900.0), (5, 900.0), (50, 900.0)])
def test_the_last_step_repeats(attempt: int, delay: float) -> None:
    assert retry_delay(attempt, OPTIONS.retry_delays, 0.0) == delay
    assert delay <= retry_delay(attempt, OPTIONS.retry_delays, 0.999) < delay * 1.1


def test_no_ladder_no_wait() -> None:
    assert retry_delay(3, (), 0.5) == 0.0


# Pace


paces = st.builds(
    Pace,
    st.integers(0, 10**10),
    st.integers(0, 10**10),
    st.integers(0, 10**5),
    st.integers(0, 2**48),
    st.integers(0, 10**7),
    st.integers(0, 10**10),
)


@given(paces)
def test_a_pace_comes_back_within_its_bounds(pace: Pace) -> None:
    stored = pace.pack()
    assert len(stored) == 27
    again = Pace.unpack(stored)
    assert again.failing_since_ms == pace.failing_since_ms
    assert again.latency_ms == min(pace.latency_ms, 2**32 - 1)
    assert Pace.unpack(again.pack()) == again


@pytest.mark.parametrize("stored", [b"", b"x", b"\x09" + bytes(26), bytes(27), bytes(40)])
def test_what_is_no_pace_is_a_group_unknown(stored: bytes) -> None:
    assert Pace.unpack(stored) == Pace()


@pytest.mark.invariant(5)
@given(
    paces,
    st.floats(0, 1e6),
    st.sampled_from([None, *KINDS]),
    st.none() | st.floats(-1e9, 1e300),
    st.floats(0, 1, exclude_max=True),
    st.booleans(),
)
def test_a_delay_is_never_shortened_and_never_endless(
    pace: Pace, latency: float, kind: str | None, retry_after: float | None, rand: float, throttle: bool
) -> None:
    options = replace(OPTIONS, delay_jitter=0.1, autothrottle_enabled=throttle)
    pace = replace(pace, crawl_delay_ms=min(pace.crawl_delay_ms, 300_000), penalty_ms=min(pace.penalty_ms, 3_600_000))
    response = Response(NOW, latency, 200, kind, retry_after)
    after, delay_ms = next_pace(pace, response, options, rand)
    assert delay_ms >= max(1000, pace.crawl_delay_ms)
    assert delay_ms <= 3_600_000 * 1.1
    after.pack()


def test_the_plain_case() -> None:
    pace, delay_ms = next_pace(Pace(), OK, OPTIONS, 0.0)
    assert delay_ms == 1000
    assert (pace.fetched, pace.latency_ms, pace.failures) == (1, 200, 0)


def test_jitter_lengthens() -> None:
    assert next_pace(Pace(), OK, replace(OPTIONS, delay_jitter=0.5), 0.5)[1] == 1250


def test_autothrottle_follows_the_smoothed_latency() -> None:
    options = replace(OPTIONS, autothrottle_enabled=True, autothrottle_max_delay=60.0)
    pace, delay_ms = next_pace(Pace(), replace(OK, latency=4.0), options, 0.0)
    assert delay_ms == 4000, "from the first answer on"
    pace, delay_ms = next_pace(pace, replace(OK, latency=2.0), options, 0.0)
    assert delay_ms == 3000
    assert next_pace(pace, replace(OK, latency=1000.0), options, 0.0)[1] == 60_000
    assert next_pace(pace, replace(OK, latency=0.001, status=500, kind="server-error"), options, 0.0)[1] == 3000, (
        "errors never shorten it"
    )


def test_retry_after_is_kept_to_up_to_a_maximum() -> None:
    throttled = Response(NOW, 0.1, 429, "throttled", retry_after=120.0)
    pace, delay_ms = next_pace(Pace(), throttled, OPTIONS, 0.0)
    assert delay_ms == 120_000
    assert next_pace(pace, OK, OPTIONS, 0.0)[1] == 1000, "it was for once"
    assert next_pace(Pace(), replace(throttled, retry_after=1e12), OPTIONS, 0.0)[1] == 3_600_000
    assert next_pace(Pace(), replace(throttled, retry_after=-5.0), OPTIONS, 0.0)[1] == 1000


def test_throttled_without_retry_after_doubles_and_recovers_stepwise() -> None:
    pace, delays = Pace(), []
    for _ in range(3):
        pace, delay_ms = next_pace(pace, Response(NOW, 0.1, 503, "throttled"), OPTIONS, 0.0)
        delays.append(delay_ms)
    for _ in range(4):
        pace, delay_ms = next_pace(pace, OK, OPTIONS, 0.0)
        delays.append(delay_ms)
    assert delays == [2000, 4000, 8000, 4000, 2000, 1000, 1000]
    assert pace.penalty_ms == 500


def test_a_group_that_fails_climbs_the_ladder_and_falls_back_at_once() -> None:
    pace, delays = Pace(), []
    for number in range(5):
        pace, delay_ms = next_pace(pace, Response(NOW + number, kind="dns"), OPTIONS, 0.0)
        delays.append(delay_ms)
    assert delays == [30_000, 120_000, 300_000, 900_000, 900_000]
    assert (pace.failures, pace.failing_since_ms) == (5, NOW)
    pace, delay_ms = next_pace(pace, OK, OPTIONS, 0.0)
    assert (delay_ms, pace.failures, pace.failing_since_ms) == (1000, 0, 0)


def test_a_single_timeout_does_not_hold_the_group_up() -> None:
    pace, delays = Pace(), []
    for _ in range(TIMEOUTS_IN_A_ROW + 1):
        pace, delay_ms = next_pace(pace, Response(NOW, kind="timeout"), OPTIONS, 0.0)
        delays.append(delay_ms)
    assert delays[:-1] == [1000] * TIMEOUTS_IN_A_ROW
    assert delays[-1] > 1000


def test_a_request_that_we_broke_off_says_nothing_about_the_group() -> None:
    failing = Pace(failures=2, failing_since_ms=NOW, latency_ms=5)
    assert next_pace(failing, Response(NOW, kind="cancelled"), OPTIONS, 0.0) == (failing, 1000)


def test_offline() -> None:
    failing = Pace(failures=3, failing_since_ms=NOW)
    assert not is_offline(failing, NOW + 86_399_999, OPTIONS)
    assert is_offline(failing, NOW + 86_400_000, OPTIONS)
    assert not is_offline(Pace(), NOW, OPTIONS)


# Bands


def test_bands_by_weight() -> None:
    assert Counter(band_of_turn(turn, 4) for turn in range(1, 17)) == {0: 8, 1: 4, 2: 2, 3: 1, None: 1}
    assert Counter(band_of_turn(turn, 2) for turn in range(1, 17)) == {0: 8, 1: 7, None: 1}
    assert {band_of_turn(turn, 1) for turn in range(1, 17)} == {0, None}


def test_priority_ranks_by_cost() -> None:
    def band(url: str, depth: int, origin: str = "link", bands: int = 4) -> int:
        return priority(Found(url, depth, origin), Pace(), bands)

    assert band("http://a.test/x/y/z?a=1&b=2", 9, "seed") == 0
    assert band("http://a.test/x/y/z?a=1&b=2", 9, "redirect") == 1
    assert band("http://a.test/", 1) == 1
    assert band("http://a.test/a?b=1", 3) > band("http://a.test/a", 1)
    assert band("http://a.test/a/a/a/a/a", 1) == 3, "a path that repeats itself"
    assert band("http://a.test/x?a=1&b=2&c=3&d=4&e=5", 4, bands=2) == 1
    assert band("http://a.test/", 0, "seed", bands=1) == band("http://a.test/", 5, bands=1) == 0


# States


def test_the_table_of_transitions_is_whole() -> None:
    assert set(COUNTED) | {State.UNKNOWN} == set(State)
    moves = {move for found in TRANSITIONS.values() for move in found}
    for state in COUNTED:
        assert any(target is state for _, target in moves), f"nothing leads to {state}"
        assert any(source is state for source, _ in moves), f"nothing leads out of {state}"
    assert {name for name, found in TRANSITIONS.items() for source, _ in found if source is State.SEALED} == {
        "publish",
        "abort",
    }, "from sealed only publish and abort lead out"
    assert MAX_HOPS == 5
