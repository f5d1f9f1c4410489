"""The arithmetic of the crawl benchmark: what is counted, and what is divided by what."""

from __future__ import annotations

import pytest

from benchmarks.crawl import summary, table
from benchmarks.runs import Run

COMMANDS = {"evalsha": 40, "script|load": 10, "hset": 900, "zadd": 50}


def test_redis_counts_as_cpu_and_scripts_own_calls_are_not_sent() -> None:
    run = Run("longline", 100, 2.0, 3.0, 1.0, 99, COMMANDS)
    figures = run.figures()
    assert run.pages_per_cpu_s == 25.0
    assert figures["pages_per_s"] == 50.0
    assert figures["redis_cpu_ms_per_page"] == 10.0
    assert figures["redis_commands_sent_per_page"] == 0.5
    assert figures["redis_commands_run_per_page"] == 10.0


def test_ratios_are_of_medians() -> None:
    results = [Run("longline", 100, 1.0, cpu) for cpu in (0.9, 1.0, 50.0)]
    results += [Run("scrapy", 100, 1.0, cpu) for cpu in (0.1, 4.0, 4.1)]
    report = summary(results)
    assert report["medians"]["longline"]["pages_per_cpu_s"] == pytest.approx(100.0)
    assert report["ratios"] == {"scrapy": 4.0}
    assert "4.00 ×" in table({**report, "notes": ["a note"]})
