"""Bad input, each with a message that names it and an exit code: 2 where the input is wrong, 1 where the world is."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.crawl import CONTACT, REPOSITORY
from tests.support.servers import RedisServer, binary_of
from tests.support.site import Site, page, serve_site

PASSWORD = "s3cret-of-the-server"


@dataclass(frozen=True)
class Case:
    """A command line, and what it must lead to."""

    code: int
    says: str
    settings: Mapping[str, str] = field(default_factory=dict)
    seeds: str | None = "http://a.test/\n"
    spider: str = "broad"
    stdin: str = ""


CASES = {
    "no seeds file": Case(2, r"seeds file '\S+seeds.txt' does not exist", seeds=None),
    "empty seeds": Case(2, r"seeds file '\S+seeds.txt' holds no URL", seeds=""),
    "comments only": Case(2, r"seeds file '\S+seeds.txt' holds no URL", seeds="# one\n\n"),
    "junk only": Case(2, r"seeds file '\S+seeds.txt' holds no URL", seeds="mailto:x@y.z\nnot a url\n"),
    "seeds is a directory": Case(2, r"seeds file '\S+' cannot be read: ", {"SEEDS": "{root}"}, seeds="-a"),
    "delays": Case(2, "RETRY_DELAYS: 'abc' is not a list of seconds", {"RETRY_DELAYS": "abc"}),
    "choice": Case(2, "POLITENESS_KEY: 'x' is not one of domain, host", {"POLITENESS_KEY": "x"}),
    "two at once": Case(
        2,
        r"LEASE_TTL: '-5' is less than 1\n(.*\n)*?.*RESOLVE: '\{' is not a JSON object",
        {"LEASE_TTL": "-5", "RESOLVE": "{"},
    ),
    "priority": Case(2, "FRONTIER_PRIORITY: 'no.such' cannot be imported", {"FRONTIER_PRIORITY": "no.such"}),
    "no contact": Case(2, "USER_AGENT names no contact", {"USER_AGENT": "mybot/1.0"}, "http://192.0.2.1/\n"),
    "no contact on stdin": Case(
        1,
        "line 1 is left out: USER_AGENT names no contact",
        {"USER_AGENT": "mybot/1.0"},
        seeds="-",
        stdin="http://192.0.2.1/\n",
    ),
    "no such spider": Case(2, "no spider is called 'brod'; there are: broad", spider="brod"),
    "no redis": Case(1, r"Redis at 127.0.0.1:1 cannot be reached", {"REDIS_URL": "redis://127.0.0.1:1/0"}),
    "wrong password": Case(1, "refuses our user name or password", {"REDIS_URL": "redis://:wr0ng@127.0.0.1:{port}/0"}),
    "output is a file": Case(1, r"the crawl cannot start: .*/file", {"OUTPUT": "{root}/file"}),
    "output below a file": Case(1, r"the crawl cannot start: .*/file/deeper", {"OUTPUT": "{root}/file/deeper"}),
    "spool below a file": Case(1, r"the crawl cannot start: .*/file/spool", {"SPOOL_DIR": "{root}/file/spool"}),
    "other partitions": Case(
        1, r"crawl 'made' was made with partitions 16, not 8", {"CRAWL_ID": "made", "FRONTIER_PARTITIONS": "8"}
    ),
    "misspelt setting": Case(
        0, "LEASE_TTLL is not a setting of Longline or Scrapy; is LEASE_TTL meant", {"LEASE_TTLL": "9"}
    ),
    "junk between": Case(
        0,
        r"line 2 is left out: .*a url(.*\n)*.*line 4 is left out: .*file:///etc/passwd(.*\n)*.*2 URLs",
        seeds="http://a.test/\nnot a url\n\nfile:///etc/passwd\n# fine\nhttp://b.test/ 1\nhttp://c.test/ high\n",
    ),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[int, str]]]:
    """All cases, two at a time: exit code and what was said."""
    root = tmp_path_factory.mktemp("bad")
    (root / "file").write_text("a file in the place of a directory")
    options = {"requirepass": PASSWORD}
    with (
        serve_site({"a.test/": page(), "b.test/": page()}) as site,
        RedisServer(str(binary_of("valkey")), root / "open", appendfsync="always") as server,
        RedisServer(str(binary_of("valkey")), root / "closed", port=_free_port(), options=options) as closed,
        ThreadPoolExecutor(2) as pool,
    ):
        made = Case(0, "", {"CRAWL_ID": "made"})
        assert run("made", made, root, site, server, closed)[0] == 0
        running = {name: pool.submit(run, name, case, root, site, server, closed) for name, case in CASES.items()}
        yield {name: future.result() for name, future in running.items()}


def run(name: str, case: Case, root: Path, site: Site, server: RedisServer, closed: RedisServer) -> tuple[int, str]:
    folder = root / name.replace(" ", "-")
    folder.mkdir()
    if case.seeds not in (None, "-a", "-"):
        (folder / "seeds.txt").write_text(str(case.seeds), "utf-8")
    settings = {
        "REDIS_URL": server.url,
        "CRAWL_ID": folder.name,
        "OUTPUT": f"{folder}/output",
        "SPOOL_DIR": f"{folder}/spool",
        "RESOLVE": site.resolve,
        "USER_AGENT": CONTACT,
        "DOWNLOAD_DELAY": "0.05",
        "PROGRESS": "off",
        **{key: value.replace("{root}", str(root)) for key, value in case.settings.items()},
    }
    words = [sys.executable, "-m", "scrapy", "crawl", case.spider]
    words += [] if case.seeds == "-a" else ["-a", "seeds=-" if case.seeds == "-" else f"seeds={folder}/seeds.txt"]
    words += [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]
    done = subprocess.run(
        [word.replace("{port}", str(closed.port)) for word in words],
        cwd=REPOSITORY,
        env={**os.environ, "SCRAPY_PROJECT": "default"},
        input=case.stdin.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_named_and_told_by_the_exit_code(ended: dict[str, tuple[int, str]], name: str) -> None:
    case, (code, said) = CASES[name], ended[name]
    assert code == case.code, said
    assert re.search(case.says, said), said
    assert "Traceback" not in said
    assert "wr0ng" not in said


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
