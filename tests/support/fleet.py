"""Workers as processes of their own, to be killed and frozen, and what each would lose if it died now."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from crawler.frontier.keys import partition_of, tag
from crawler.storage.journal import JOURNAL, read_journal
from tests.support.crawl import CONTACT, REPOSITORY
from tests.support.poll import until
from tests.support.servers import RedisServer
from tests.support.web import Web

CRAWL = "fleet"
PARTITIONS = 8


@dataclass(frozen=True)
class Stake:
    """What hangs on one worker: groups of its URLs whose requests are under way or prefetched (`leased`) and of those
    that it holds (`held`), and rows in its spool that no decision has published."""

    leased: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    rows: int = 0

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(self.leased) | frozenset(self.held)

    def __str__(self) -> str:
        return f"{len(self.leased)} live leases, {len(self.held)} held URLs, {self.rows} unpublished rows"


@dataclass
class Member:
    """One worker process. `name` is its WORKER_NAME, `spool` its SPOOL_DIR."""

    name: str
    spool: Path
    log: Path
    process: subprocess.Popen[bytes]
    frozen: bool = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def directory(self) -> Path | None:
        """Its own directory in the spool, None before it has one."""
        found = [path for path in (self.spool / CRAWL).glob(f"{self.name}_*") if path.is_dir()]
        return found[0] if found else None

    def stat(self, name: str) -> int:
        """One of the figures that Scrapy wrote to its log when it closed; 0 when it is not there."""
        found = re.search(rf"'{re.escape(name)}': (\d+)", self.log.read_text(encoding="utf-8", errors="replace"))
        return int(found[1]) if found else 0


@dataclass
class Fleet:
    """Workers of one crawl of `web` through `server`, with all they write under `root`. All end with the block."""

    root: Path
    server: RedisServer
    web: Web
    settings: Mapping[str, object] = field(default_factory=dict)
    seeds: Sequence[str] = ()
    members: list[Member] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        urls = self.seeds or self.web.world.seeds
        (self.root / "seeds.txt").write_text("".join(f"{url}\n" for url in urls), "ascii")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            if member.alive:
                member.process.kill()
                member.process.wait()

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.members if member.alive]

    def start(self, spool: str = "spool", patches: Sequence[str] = ()) -> Member:
        """Start a worker on a spool directory; `patches` are names of tests.support.mutants."""
        name = f"w{len(self.members)}"
        log = self.root / f"{name}.log"
        settings = {
            "USER_AGENT": CONTACT,
            "PROGRESS": "off",
            "CRAWL_ID": CRAWL,
            "FRONTIER_PARTITIONS": PARTITIONS,
            "WORKER_NAME": name,
            "REDIS_URL": self.server.url,
            "SPOOL_DIR": self.root / spool,
            "OUTPUT": self.output,
            "RESOLVE": self.web.resolve,
            **self.settings,
        }
        words = [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]
        program = ["tests.support.mutants", ",".join(patches)] if patches else ["scrapy"]
        command = [sys.executable, "-m", *program, "crawl", "broad", "-a", f"seeds={self.root / 'seeds.txt'}", *words]
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={**os.environ}
            )
        member = Member(name, self.root / spool, log, process)
        self.members.append(member)
        return member

    def kill(self, member: Member) -> None:
        """kill -9."""
        member.process.kill()
        member.process.wait()

    def freeze(self, member: Member) -> None:
        """Stop the process; its connections stay open. It has stopped when this returns."""
        member.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, member.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        member.frozen = True

    def wake(self, member: Member) -> None:
        """Let a frozen process go on where it was."""
        member.frozen = False
        member.process.send_signal(signal.SIGCONT)

    def catch(self, candidates: Sequence[Member], deadline_s: float) -> tuple[Member, Stake]:
        """Freeze one of the candidates at a moment at which it has live leases and unpublished rows.

        Each is stopped and looked at, and goes on if it has too little at stake: what is counted of the one that stays
        stopped is exactly what its death costs.
        """

        def caught() -> tuple[Member, Stake] | None:
            for member in candidates:
                if not member.alive or member.directory() is None:
                    continue
                self.freeze(member)
                stake = self.stake(member)
                if stake.leased and stake.held and stake.rows:
                    return member, stake
                self.wake(member)
            return None

        found = until(caught, deadline_s, "a worker with live leases, held URLs and unpublished rows")
        assert found is not None
        return found

    def stake(self, member: Member) -> Stake:
        """What hangs on a worker, as far as the server and its spool show it."""
        directory = member.directory()
        if directory is None:
            return Stake()
        worker = f"{member.name}:{directory.name.removeprefix(member.name + '_')}"
        with self.server.sync_client() as client:
            client.ping()  # whatever a stopped worker had sent before is done when the next command is
            urls = list(_urls_of(client, worker))
            decided = {journal.stem: _decision(client, journal.stem) for journal in directory.glob(f"*{JOURNAL}")}
        unpublished = sum(
            len(commit.rows)
            for segment, decision in decided.items()
            if decision != b"P"
            for _, commit in read_journal(directory / (segment + JOURNAL), 1 << 62)
        )
        return Stake(
            tuple(group for state, group in urls if state == "leased"),
            tuple(group for state, group in urls if state == "held"),
            unpublished,
        )

    def counters(self) -> dict[str, int]:
        """The frontier's counters, summed over the partitions."""
        total: dict[str, int] = {}
        with self.server.sync_client() as client:
            for partition in range(PARTITIONS):
                for name, value in client.hgetall(tag(CRAWL, partition) + "n").items():
                    total[name.decode()] = total.get(name.decode(), 0) + int(value)
        return total

    def fetched(self) -> int:
        """URLs that are held, sealed or done: how far the crawl is. AssertionError when a worker has failed."""
        self.check()
        counters = self.counters()
        return sum(counters.get(state, 0) for state in ("held", "sealed", "done"))

    def finish(self, deadline_s: float) -> None:
        """Wait until every living worker has found the crawl finished; AssertionError with a failed one's log."""
        until(lambda: not self.alive, deadline_s, "all workers finding the crawl finished")
        self.check()

    def check(self) -> None:
        """AssertionError, with its log's end, when a worker has ended otherwise than by kill -9 or the crawl's end."""
        for member in self.members:
            if member.process.poll() not in (None, 0, -signal.SIGKILL):
                raise AssertionError(f"{member.name} failed:\n{member.log.read_text(errors='replace')[-4000:]}")


def _urls_of(client: redis.Redis, worker: str) -> Iterator[tuple[str, str]]:
    """State and group of every URL that a worker has leased or holds, from the rows that items.lua describes."""
    for partition in range(PARTITIONS):
        turns = set(client.zrange(tag(CRAWL, partition) + "turns", 0, -1))
        for token, row in client.hgetall(tag(CRAWL, partition) + "leases").items():
            end = 20 + row[19]
            group = row[end + 1 : end + 1 + row[end]]
            if row[20:end].decode() == worker and row[1:2] != b"S":
                yield "leased" if token + group in turns else "held", group.decode()


def _decision(client: redis.Redis, segment: str) -> bytes:
    stored = client.hget(tag(CRAWL, partition_of(segment, PARTITIONS)) + "decisions", segment)
    return stored[1:2] if stored else b""
