"""The generated web: the same every time, its truth equal to what a plain walk over the served bytes finds."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from protego import Protego

from crawler.demo.profiles import demo, plain
from crawler.demo.run import SETTINGS, DemoCrawl
from crawler.demo.web import serving
from crawler.demo.witness import read_log
from crawler.demo.world import Page, World, registrable
from tests.support.web import serve

# --- a crawler of forty lines, which shares nothing with the one under test -------------------------------------------


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    async def get(self, url: str) -> Reply:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        raw = await reader.read()
        writer.close()
        await writer.wait_closed()
        return parse(raw)


def parse(raw: bytes) -> Reply:
    head, body = raw.split(b"\r\n\r\n", 1)
    first, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    return Reply(int(first.split(" ")[1]), headers, body, len(body) == int(headers["content-length"]))


class Links(HTMLParser):
    def __init__(self, url: str, html: str) -> None:
        super().__init__()
        self.base, self.hrefs, self.nofollow = url, list[str](), False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "base":
            self.base = urljoin(self.base, found["href"])
        elif tag == "meta" and found.get("name") == "robots":
            self.nofollow = "nofollow" in found["content"]
        elif tag in ("a", "link") and "nofollow" not in found.get("rel", ""):
            self.hrefs.append(found["href"])


async def walk(client: Client, seeds: tuple[str, ...], agent: str) -> tuple[set[str], set[str]]:
    """The HTML pages that a walk finds, and what robots.txt kept it from; each URL is asked for until it is well."""
    robots: dict[str, Protego] = {}
    pages, forbidden, seen, queue = set[str](), set[str](), set(seeds), list(seeds)
    while queue:
        url = queue.pop()
        host = urlsplit(url).netloc
        if host not in robots:
            reply = await persist(client, f"http://{host}/robots.txt")
            robots[host] = Protego.parse(reply.body.decode("utf-8-sig") if reply.status == 200 else "")
        if not robots[host].can_fetch(url, agent):
            forbidden.add(url)
            continue
        reply = await persist(client, url)
        found = []
        if "location" in reply.headers:
            found = [reply.headers["location"]]
            base = url
        elif reply.status == 200 and reply.whole and reply.headers["content-type"].startswith("text/html"):
            links = Links(url, reply.body.decode("latin-1"))
            base, found = links.base, [] if links.nofollow else links.hrefs
            pages.add(url)
        for href in found:
            target = urldefrag(urljoin(base, href)).url
            if target not in seen and "month=9" not in target:
                seen.add(target)
                queue.append(target)
    return pages, forbidden


async def persist(client: Client, url: str) -> Reply:
    for _ in range(4):
        reply = await client.get(url)
        itself = urljoin(url, reply.headers.get("location", "/other")) == url
        if reply.status < 500 and reply.whole and not itself:
            break
    return reply


@contextlib.asynccontextmanager
async def web(world: World, log: Path | None = None) -> AsyncIterator[Client]:
    async with serving(replace(world, latency={}), log=log) as port:
        yield Client(port)


# --- the generator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [demo, plain])
def test_a_world_is_the_same_for_the_same_arguments(profile: type) -> None:
    first, again, other = profile(40, 4, 1), profile(40, 4, 1), profile(40, 4, 2)
    assert first.resources == again.resources
    assert first.seeds == again.seeds
    assert first.resources != other.resources
    assert [a.payload() for answers in first.resources.values() for a in answers] == [
        a.payload() for answers in again.resources.values() for a in answers
    ]


@pytest.mark.parametrize("agent", ["longline", "GreedyBot/2.0"])
async def test_the_truth_is_what_a_walk_over_the_served_bytes_finds(agent: str) -> None:
    world = demo(40, 4)
    truth = world.truth(agent=agent)
    async with web(world) as client:
        pages, forbidden = await walk(client, world.seeds, agent)
    assert {url for url in pages if "/calendar?" not in url} == truth.documents
    assert forbidden == truth.forbidden
    # The walk leaves the endless calendar at month 9, the truth at its depth limit; a banned agent sees neither.
    assert bool(truth.documents) == bool(truth.trap) == (agent == "longline")


def test_the_demo_has_one_of_everything() -> None:
    world = demo()
    truth = world.truth()
    assert len(world.rules) >= 60
    assert len({registrable(host) for host in world.rules}) < len(world.rules)
    assert len(truth.documents) > 480
    assert all((truth.noindex, truth.files, truth.redirects, truth.forbidden, truth.missing, truth.trap))
    assert {urlsplit(url).path for url in truth.failing} == {"/broken.html", "/short.html", "/loop/a", "/loop/b"}
    assert not any("/hidden/" in url for url in truth.documents)
    assert any(url.endswith("/chain/end.html") for url in truth.documents)
    assert any(url.endswith("/cookie.html") for url in truth.documents)
    assert 1.0 in world.delays(0.2).values()


def test_the_plain_world_is_reachable_whole_from_its_first_page() -> None:
    world = plain(300, 10)
    truth = world.truth(["http://h0.test/"])
    assert len(truth.documents) == 3000
    assert len(truth.documents) == len(world.resources) - len(world.rules)  # all but robots.txt
    assert not any((truth.forbidden, truth.failing, truth.missing, truth.redirects))


def test_pages_of_different_urls_have_different_texts_and_copies_the_same() -> None:
    world = demo()
    bodies = {url: answers[-1].payload() for url, answers in world.resources.items()}
    copied = next(url for url in bodies if url.endswith("/copied.html"))
    twins = [url for url in bodies if bodies[url] == bodies[copied]]
    assert len(twins) == 2
    articles = [
        answers[-1].body
        for url, answers in world.resources.items()
        if "/p/" in url and isinstance(answers[-1].body, Page)
    ]
    assert len({page.prose for page in articles}) == len(articles)


# --- the server -------------------------------------------------------------------------------------------------------


async def test_pipelined_requests_are_answered_in_order() -> None:
    world = plain(2, 3)
    async with web(world) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        paths = ["/p/1.html", "/nothing", "/p/2.html"]
        writer.write(b"".join(f"GET {path} HTTP/1.1\r\nHost: h1.test:80\r\n\r\n".encode() for path in paths))
        for path in paths:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            expected = world.answers(f"http://h1.test{path}")[0]
            assert body == expected.payload()
            assert head.startswith(f"HTTP/1.1 {expected.status} ".encode())
        writer.close()
        await writer.wait_closed()


async def test_answers_come_in_turn_and_the_log_names_each(tmp_path: Path) -> None:
    world = demo()
    url = next(url for url in world.resources if url.endswith("/busy.html"))
    async with web(world, tmp_path / "log") as client:
        statuses = [(await client.get(url)).status for _ in range(4)]
    assert statuses == [503, 503, 200, 200]
    hits = read_log(tmp_path / "log")
    assert [(hit.url, hit.status) for hit in hits] == [(url, status) for status in statuses]
    assert all(hit.start <= hit.end for hit in hits)


async def test_a_client_that_hangs_up_ends_its_request(tmp_path: Path) -> None:
    world = replace(plain(1, 2), latency={"h0.test": 3600.0})
    async with serving(world, log=tmp_path / "log") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /nothing HTTP/1.1\r\nHost: h1.test\r\n\r\nGET / HTTP/1.1\r\nHost: h0.test\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")  # the answer to the first: the second is under way
        writer.close()
        await writer.wait_closed()
    assert [(one.url, one.status) for one in read_log(tmp_path / "log")] == [
        ("http://h1.test/nothing", 404),
        ("http://h0.test/", 499),
    ]


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_demo_crawl_maps_its_hosts_to_the_web_and_takes_settings(tmp_path: Path) -> None:
    command = DemoCrawl(tmp_path / "out", "demo", ("PROGRESS=off",)).command(tmp_path / "seeds.txt", 8123)
    assert f"seeds={tmp_path / 'seeds.txt'}" in command
    assert 'RESOLVE={"*.test": "127.0.0.1:8123"}' in command
    assert command[-1] == "PROGRESS=off"
    assert {f"{name}={value}" for name, value in SETTINGS.items()} <= set(command)


class StandIn(DemoCrawl):
    """In place of the crawl a child that stops us as a terminal would, and tells by its exit code how it was told."""

    def command(self, seeds: Path, port: int) -> list[str]:
        script = f"""
import os, signal, sys, urllib.request
seed = open({str(seeds)!r}).readline().strip()
request = urllib.request.Request("http://127.0.0.1:{port}/", headers={{"Host": seed.split("/")[2]}})
assert urllib.request.urlopen(request).status == 200
signal.signal(signal.SIGINT, lambda number, frame: sys.exit(7))
assert os.getpgid(0) != os.getpgid(os.getppid())
os.kill(os.getppid(), signal.{self.crawl_id})
signal.pause()
"""
        return [sys.executable, "-c", script]


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 7), ("SIGTERM", 128 + 15), ("SIGHUP", 128 + 15)])
def test_what_stops_the_demo_is_passed_on_and_the_crawls_exit_code_is_ours(
    sent: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert StandIn(tmp_path / "out", sent).run() == code
    assert [hit.status for hit in read_log(tmp_path / ".longline" / "demo-access.tsv")] == [200]


def test_the_served_command_says_its_port_and_leaves_a_whole_log(tmp_path: Path) -> None:
    with serve(tmp_path / "log", hosts=3, pages=2) as child:
        url = f"http://127.0.0.1:{child.port}/p/1.html"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Host": "h2.test"})) as reply:
            assert reply.read() == child.world.answers("http://h2.test/p/1.html")[0].payload()
    assert [one.url for one in child.hits()] == ["http://h2.test/p/1.html"]
