"""`python -m crawler.demo crawl`, as `make crawl` runs it: one crawl to its end, looked at from all sides."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crawler.demo.profiles import demo
from crawler.demo.run import DEPTH_LIMIT, SETTINGS
from crawler.demo.witness import read_log, violations
from crawler.demo.world import World
from tests.support.crawl import REPOSITORY, documents

GOAL = 60.0  # seconds, from nothing to the end


@dataclass(frozen=True)
class Ended:
    """A demo crawl that has ended; `places` is where it kept its things."""

    places: Path
    said: str
    seconds: float
    rows: list[dict[str, Any]]
    world: World


def start(places: Path) -> subprocess.CompletedProcess[str]:
    """Runs the demo in an empty directory, with the project's settings."""
    return subprocess.run(
        [sys.executable, "-m", "crawler.demo", "crawl", "--output", "corpus"],
        cwd=places,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "SCRAPY_SETTINGS_MODULE": "settings.local"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * GOAL,
        check=False,
    )


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    places = tmp_path_factory.mktemp("demo")
    begun = time.monotonic()
    done = start(places)
    seconds = time.monotonic() - begun
    assert done.returncode == 0, done.stdout[-4000:]
    return Ended(places, done.stdout, seconds, list(documents(places / "corpus")), demo())


def test_it_takes_less_than_a_minute(ended: Ended) -> None:
    assert ended.seconds < GOAL


def test_the_corpus_is_what_the_web_has_each_page_once(ended: Ended) -> None:
    truth = ended.world.truth(depth_limit=DEPTH_LIMIT)
    rows = Counter(row["url"] for row in ended.rows)
    assert set(rows.values()) == {1}
    cut = {row["url"] for row in ended.rows if row["metadata"]["truncated"]}
    assert {url for url in cut if url.endswith("/short.html")} == cut <= truth.failing
    assert len(cut) == 1, "the page that never comes whole is kept as far as it came"
    calendar = {url for url in rows if "/calendar?" in url}
    assert 0 < len(calendar) <= DEPTH_LIMIT + 1
    notes = {url for url in truth.files if url.endswith(".txt")}
    assert set(rows) - calendar - cut == (truth.documents - truth.noindex) | notes


def test_it_was_polite_by_the_servers_own_log(ended: Ended) -> None:
    log = read_log(ended.places / ".longline/demo-access.tsv")
    delays = ended.world.delays(float(SETTINGS["DOWNLOAD_DELAY"]))
    assert violations(log, delays) == []
    assert len(log) > len(ended.rows)


def test_nothing_forbidden_was_asked_for(ended: Ended) -> None:
    truth = ended.world.truth(depth_limit=DEPTH_LIMIT)
    asked = {hit.url for hit in read_log(ended.places / ".longline/demo-access.tsv")}
    assert truth.forbidden
    assert not asked & truth.forbidden


def test_progress_is_plain_without_a_terminal(ended: Ended) -> None:
    assert "\x1b[" not in ended.said
    assert "Traceback" not in ended.said


def test_the_line_that_reads_the_corpus_works(ended: Ended) -> None:
    line = re.search(r"read it: +(.+)$", ended.said, re.MULTILINE)
    assert line, ended.said[-2000:]
    read = subprocess.run(line[1], shell=True, cwd=ended.places, capture_output=True, text=True, timeout=20, check=True)
    assert read.stdout.startswith("{")
    assert '"url"' in read.stdout


def test_a_second_start_says_that_it_is_finished(ended: Ended) -> None:
    log = ended.places / ".longline/demo-access.tsv"
    asked = len(read_log(log))
    begun = time.monotonic()
    again = start(ended.places)
    assert again.returncode == 0
    assert "is finished" in again.stdout
    assert time.monotonic() - begun < GOAL / 3
    assert len(read_log(log)) in (0, asked), "nothing was asked for again"
    assert len(list(documents(ended.places / "corpus"))) == len(ended.rows)
