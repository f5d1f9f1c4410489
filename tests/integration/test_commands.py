"""`scrapy frontier` and `scrapy dlq` as an operator types them, on a server."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from crawler.frontier import Burial, Frontier
from crawler.options import Options
from tests.support.crawl import REPOSITORY
from tests.support.frontier import candidate, tokens
from tests.support.servers import RedisServer


class Operator:
    """Types commands about one crawl."""

    def __init__(self, server: RedisServer, name: str) -> None:
        self.server, self.name = server, name

    def run(self, *words: str, stdin: Any = "") -> subprocess.CompletedProcess[str]:
        """What a command says, and its exit code."""
        given = {"input": stdin} if isinstance(stdin, str) else {"stdin": stdin}
        settings = ("-s", f"REDIS_URL={self.server.url}", "-s", f"CRAWL_ID={self.name}")
        return subprocess.run(
            [sys.executable, "-m", "scrapy", *words, *settings],
            check=False,
            cwd=REPOSITORY,
            env={**os.environ, "SCRAPY_PROJECT": "default"},
            capture_output=True,
            text=True,
            timeout=60,
            **given,
        )

    def json(self, *words: str, stdin: str = "") -> Any:
        """The answer of a command that succeeds."""
        done = self.run(*words, "--json", stdin=stdin)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refused(self, code: int, *words: str) -> str:
        """What is complained of by a command that fails with that code."""
        done = self.run(*words)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stderr

    def bury(self, *urls: str) -> None:
        """Make dead letters, and leave."""

        async def do(frontier: Frontier) -> None:
            await frontier.add([candidate(url) for url in urls])
            leases = (await frontier.lease(tokens(len(urls)), "w")).leases
            assert len(leases) == len(urls)
            reasons = ["timeout", "reset"]
            await frontier.bury([Burial(lease, reasons["b.test" in lease.url]) for lease in leases])
            await frontier.leave("w")

        self.ask(do)

    def ask(self, what: Callable[[Frontier], Awaitable[Any]]) -> Any:
        async def do() -> Any:
            async with self.server.client() as client:
                return await what(await Frontier.open(client, Options(crawl_id=self.name)))

        return asyncio.run(do())


@pytest.fixture
def operator(valkey: RedisServer, request: pytest.FixtureRequest) -> Operator:
    return Operator(valkey, f"commands-{request.node.name}")


def test_adding_and_looking(operator: Operator, tmp_path: Path) -> None:
    """More lines than a batch, from stdin; junk is named by its line and stops nothing."""
    lines = [f"http://h{number % 7}.test/{number}" for number in range(1500)]
    lines[3:3] = ["no url", "# a comment", "http://low.test/ 3", "http://low.test/ x"]
    done = operator.run("frontier", "add", "-", "--json", stdin="\n".join(lines))
    assert (done.returncode, json.loads(done.stdout)) == (0, {"added": 1501, "seen": 0, "refused": 2})
    named = [line for line in done.stderr.splitlines() if line.startswith("longline: -, line ")]
    assert [line.split(":")[1] for line in named] == [" -, line 4", " -, line 7"]

    again = tmp_path / "again.txt"
    again.write_text("http://h0.test/0\nhttp://new.test/\n")
    assert operator.json("frontier", "add", str(again)) == {"added": 1, "seen": 1, "refused": 0}

    stats = operator.json("frontier", "stats")
    assert (stats["added"], stats["queued"], stats["groups"]) == (1502, 1502, 9)
    groups = {row["group"]: row for row in operator.json("frontier", "groups")}
    assert set(groups) == {f"h{number}.test" for number in range(7)} | {"low.test", "new.test"}
    assert groups["low.test"] | {"next_ms": 0} == {
        "group": "low.test", "bands": [3], "next_ms": 0, "delay": 0.0, "failures": 0, "blocked": "no",
    }  # fmt: skip
    assert len(operator.json("frontier", "groups", "--limit", "2")) == 2
    shown = operator.run("frontier", "peek", "h1.test", "--limit", "2").stdout.splitlines()
    assert shown == ["url", "http://h1.test/1", "http://h1.test/8"]


def test_blocking(operator: Operator) -> None:
    """For a time, for good, before the group is met, and back."""
    operator.json("frontier", "add", "-", stdin="http://a.test/\n")
    assert operator.json("frontier", "block", "a.test", "--for", "100")["until_ms"] > 0
    [group] = operator.json("frontier", "groups")
    assert group["blocked"] == "until next_ms"
    assert operator.json("frontier", "block", "a.test") == {"group": "a.test", "blocked": True, "until_ms": None}
    assert "for good" in operator.run("frontier", "groups").stdout
    assert operator.json("frontier", "unblock", "a.test") == {"group": "a.test", "blocked": False}
    assert operator.json("frontier", "groups")[0]["blocked"] == "no"
    assert operator.json("frontier", "block", "later.test")["blocked"]


def test_forgetting(operator: Operator) -> None:
    operator.bury("http://a.test/dead")
    operator.json("frontier", "add", "-", stdin="http://a.test/waits\n")
    assert operator.json("frontier", "forget", "http://A.test:80/dead") == {
        "url": "http://a.test/dead", "forgotten": True, "was": "dead",
    }  # fmt: skip
    assert "was never seen" in operator.refused(2, "frontier", "forget", "http://a.test/dead")
    assert "is queued" in operator.refused(1, "frontier", "forget", "http://a.test/waits")
    assert operator.json("frontier", "add", "-", stdin="http://a.test/dead\n")["added"] == 1


def test_purging(operator: Operator) -> None:
    """It asks, and takes no silence for an answer; not while somebody is at work."""
    operator.json("frontier", "add", "-", stdin="http://a.test/\n")
    assert "--yes" in operator.refused(2, "frontier", "purge")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"n\n")
        done = operator.run("frontier", "purge", stdin=theirs)
        assert (done.returncode, "Forget all of it?" in done.stderr) == (1, True)
        assert operator.json("frontier", "stats")["added"] == 1
        os.write(ours, b"y\n")
        assert operator.run("frontier", "purge", stdin=theirs).returncode == 0
    finally:
        os.close(ours)
        os.close(theirs)
    assert operator.json("frontier", "stats")["added"] == 0
    operator.ask(lambda frontier: frontier.lease(tokens(1), "busy"))
    assert "busy" in operator.refused(1, "frontier", "purge", "--yes")


def test_dead_letters(operator: Operator) -> None:
    operator.bury(*(f"http://{host}.test/" for host in ("a", "b", "c", "d", "e")))
    letters = {letter["group"]: letter for letter in operator.json("dlq", "list")}
    assert set(letters) == {"a.test", "b.test", "c.test", "d.test", "e.test"}
    assert operator.json("dlq", "show", letters["b.test"]["id"]) == letters["b.test"]
    assert letters["b.test"]["reasons"] == ["reset"]
    assert operator.json("dlq", "replay", letters["a.test"]["id"]) == {"replay": 1}
    assert operator.json("dlq", "drop", "--reason", "reset") == {"drop": 1}
    assert operator.json("dlq", "replay", "--group", "c.test", "--reason", "reset") == {"replay": 0}
    assert operator.json("dlq", "replay", "--group", "c.test") == {"replay": 1}
    assert "no such dead letter" in operator.refused(2, "dlq", "drop", letters["a.test"]["id"])
    assert operator.json("dlq", "drop", "--all") == {"drop": 2}
    assert operator.run("dlq", "list").stdout == "nothing\n"
    stats = operator.json("frontier", "stats")
    assert (stats["queued"], stats["done"], stats["dead"]) == (2, 3, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("frontier", "scrapy frontier stats | groups"),
        ("frontier thaw", "scrapy frontier stats | groups"),
        ("frontier peek", "peek takes 1 argument"),
        ("frontier stats --josn", "no such option: --josn"),
        ("frontier peek none.test", "no such group: 'none.test'"),
        ("frontier unblock none.test", "no such group: 'none.test'"),
        ("frontier block www.none.test", "is 'none.test'"),
        ("frontier block none.test --for -1", "--for -1.0"),
        ("frontier groups --limit 0", "--limit 0"),
        ("frontier forget nothing", "'nothing'"),
        ("frontier add /none/there", "does not exist"),
        ("frontier add -", "holds no URL"),
        ("dlq show 17", "not the id of a dead letter: '17'"),
        ("dlq show 0:1-1", "no such dead letter: '0:1-1'"),
        ("dlq replay", "replay takes ids"),
        ("dlq drop 0:1-1 --all", "drop takes ids"),
    ],
)
def test_what_makes_no_sense(operator: Operator, words: str, said: str) -> None:
    done = operator.run(*words.split())
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert said.lower() in (done.stdout + done.stderr).lower()
