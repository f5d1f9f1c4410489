"""Runs `scrapy crawl broad` as a child, as a user would, and reads the corpus that it leaves."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
CONTACT = "longline-test/1.0 (+http://h0.test/)"


def command(seeds: Path, settings: Mapping[str, object]) -> list[str]:
    """The command line of one worker."""
    pairs = {"USER_AGENT": CONTACT, "PROGRESS": "plain", **settings}
    words = [sys.executable, "-m", "scrapy", "crawl", "broad", "-a", f"seeds={seeds}"]
    return words + [word for name, value in pairs.items() for word in ("-s", f"{name}={value}")]


def crawl(folder: Path, seeds: Path, deadline_s: float, **settings: object) -> str:
    """Crawls to the end in `folder` (server, spool and output lie there too) and gives what was logged.

    AssertionError, with the log's end, when the worker fails; subprocess.TimeoutExpired after `deadline_s` seconds.
    """
    places = {
        "EMBEDDED_DIR": folder / "state",
        "SPOOL_DIR": folder / "spool",
        "OUTPUT": folder / "output",
        "CRAWL_ID": "test",
    }
    done = subprocess.run(
        command(seeds, {**places, **settings}),
        cwd=REPOSITORY,
        env={**os.environ, "SCRAPY_PROJECT": "default"},
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )
    log = done.stderr + done.stdout
    assert done.returncode == 0, log[-4000:]
    return log


def documents(output: Path) -> Iterator[dict[str, Any]]:
    """The rows of every document in a corpus, in no order."""
    for part in output.glob("documents/*/*.jsonl.gz"):
        with gzip.open(part, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)
