"""Every setting: declared once, read from Python and from the command line, refused with its name and value."""

from __future__ import annotations

import os
import socket
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.errors import BadSetting
from crawler.options import Options, settings_page

ROOT = Path(__file__).parents[2]


def read(**settings: Any) -> Options:
    return Options.from_settings(settings)


def test_nothing_set_gives_the_defaults() -> None:
    assert Options.from_settings({}) == Options()


def test_every_default_is_a_value_that_its_own_reader_accepts() -> None:
    defaults = {field.name.upper(): getattr(Options(), field.name) for field in fields(Options)}
    assert Options.from_settings(defaults) == Options()


def test_every_default_survives_the_command_line() -> None:
    plain = {
        field.name.upper(): str(getattr(Options(), field.name))
        for field in fields(Options)
        if isinstance(getattr(Options(), field.name), str | int | float)
    }
    assert Options.from_settings(plain) == Options()


def test_scrapy_settings_are_read() -> None:
    settings = Settings({"LEASE_TTL": "90", "CRAWL_ID": "news", "DOWNLOAD_DELAY": 0.25})
    options = Options.from_settings(settings)
    assert (options.lease_ttl, options.crawl_id, options.download_delay) == (90.0, "news", 0.25)


def test_our_base_settings_are_right() -> None:
    settings = Settings()
    settings.setmodule("settings.base")
    assert Options.from_settings(settings) == Options()


@pytest.mark.parametrize("raw", ["1,2.5", "[1, 2.5]", [1, 2.5], ("1", "2.5")])
def test_a_list_may_be_commas_json_or_python(raw: Any) -> None:
    assert read(RETRY_DELAYS=raw).retry_delays == (1.0, 2.5)


@pytest.mark.parametrize("raw", ["1", "true", "True", "yes", "on", True, 1])
def test_true(raw: Any) -> None:
    assert read(SCHEDULER_FLUSH_ON_START=raw).scheduler_flush_on_start is True


@pytest.mark.parametrize("raw", ["0", "false", "False", "no", "off", False, 0])
def test_false(raw: Any) -> None:
    assert read(ROBOTSTXT_OBEY=raw).robotstxt_obey is False


def test_resolve_may_be_json() -> None:
    options = read(RESOLVE='{"*.test": "127.0.0.1", "a.test": "127.0.0.1:8081", "b.test": "[::1]:80", "c.test": "::1"}')
    assert options.resolve["a.test"] == "127.0.0.1:8081"


def test_single_addresses_are_networks() -> None:
    assert read(ALLOWED_PRIVATE_NETWORKS="127.0.0.1,10.1.2.3/8").allowed_private_networks == (
        "127.0.0.1/32",
        "10.0.0.0/8",
    )


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("RETRY_DELAYS", "abc", "RETRY_DELAYS: 'abc' is not a list of seconds"),
        ("RETRY_DELAYS", "", "RETRY_DELAYS: '' is not a list of seconds"),
        ("RETRY_DELAYS", [-1], "RETRY_DELAYS: [-1] is not a list of seconds"),
        ("RETRY_DELAYS", "nan", "RETRY_DELAYS: 'nan' is not a list of seconds"),
        ("LEASE_TTL", "soon", "LEASE_TTL: 'soon' is not a number of seconds"),
        ("LEASE_TTL", "inf", "LEASE_TTL: 'inf' is not a number of seconds"),
        ("LEASE_TTL", 0, "LEASE_TTL: 0 is less than 1"),
        ("DOWNLOAD_TIMEOUT", "0", "DOWNLOAD_TIMEOUT: '0' is not more than 0"),
        ("DOWNLOAD_DELAY", "-1", "DOWNLOAD_DELAY: '-1' is less than 0"),
        ("MAX_ATTEMPTS", "2.5", "MAX_ATTEMPTS: '2.5' is not a whole number"),
        ("MAX_ATTEMPTS", True, "MAX_ATTEMPTS: True is not a whole number"),
        ("FRONTIER_PARTITIONS", 16385, "FRONTIER_PARTITIONS: 16385 is more than 16384"),
        ("POLITENESS_KEY", "ip", "POLITENESS_KEY: 'ip' is not one of domain, host"),
        ("SEEN_MODE", "cuckoo", "SEEN_MODE: 'cuckoo' is not exact"),
        ("CRAWL_ID", "a b", "CRAWL_ID: 'a b' is not 1 to 64 of"),
        ("CRAWL_ID", "x" * 65, "is not 1 to 64 of"),
        ("CRAWL_ID", "a\n", "is not 1 to 64 of"),
        ("ROBOTSTXT_OBEY", "maybe", "ROBOTSTXT_OBEY: 'maybe' is not True or False"),
        ("DELAY_JITTER", 1.5, "DELAY_JITTER: 1.5 is more than 1"),
        ("RESOLVE", "a.test:127.0.0.1", "RESOLVE: 'a.test:127.0.0.1' is not a JSON object"),
        ("RESOLVE", {"a.test": "b.test"}, "which is not an address"),
        ("RESOLVE", {"a.test": "127.0.0.1:0"}, "which is not an address"),
        ("RESOLVE", {"a*.test": "127.0.0.1"}, "'a*.test', which fits no host"),
        (
            "ALLOWED_PRIVATE_NETWORKS",
            "10.0.0.0/33",
            "ALLOWED_PRIVATE_NETWORKS: '10.0.0.0/33' is not a list of networks",
        ),
        ("OUTPUT", " ", "OUTPUT: ' ' is empty"),
        ("FRONTIER_PRIORITY", "priority", "FRONTIER_PRIORITY: 'priority' is not a dotted path"),
    ],
)
def test_a_wrong_value_is_named(name: str, raw: Any, says: str) -> None:
    with pytest.raises(BadSetting) as caught:
        read(**{name: raw})
    assert says in str(caught.value)


def test_all_wrong_values_are_named_at_once() -> None:
    with pytest.raises(BadSetting) as caught:
        read(LEASE_TTL="x", MAX_ATTEMPTS="y", CRAWL_ID="fine")
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["LEASE_TTL", "MAX_ATTEMPTS"]


@pytest.mark.parametrize("name", ["REDIS_URL", "REDIS_PARAMS"])
def test_a_value_that_may_hold_a_password_is_not_shown(name: str) -> None:
    with pytest.raises(BadSetting) as caught:
        read(**{name: "http://:geheim@h"})
    assert "geheim" not in str(caught.value)


def test_the_spool_is_not_the_corpus(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="SPOOL_DIR"):
        read(OUTPUT=str(tmp_path), SPOOL_DIR=f"{tmp_path}/x/..")


def test_a_path_may_be_a_path(tmp_path: Path) -> None:
    assert read(OUTPUT=tmp_path).output == str(tmp_path)


def test_a_fetch_takes_at_most_half_a_lease() -> None:
    assert read(LEASE_TTL=120, DOWNLOAD_TIMEOUT=45).fetch_timeout == 45
    assert read(LEASE_TTL=10, DOWNLOAD_TIMEOUT=45).fetch_timeout == 5


def test_a_worker_has_a_name() -> None:
    assert Options().worker == f"{socket.gethostname()}-{os.getpid()}"
    assert read(WORKER_NAME="w1").worker == "w1"


def test_options_do_not_change() -> None:
    options = read(RESOLVE={"a.test": "127.0.0.1"})
    with pytest.raises(FrozenInstanceError):
        options.lease_ttl = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        options.resolve["b.test"] = "127.0.0.1"  # type: ignore[index]


def test_the_settings_page_is_current() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == settings_page(), (
        "run: python -m crawler.options > docs/settings.md"
    )
