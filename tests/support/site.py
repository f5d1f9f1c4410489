"""Sites of scripted answers, served by this process, and what was asked of them."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from crawler.demo.witness import Hit


@dataclass(frozen=True)
class Say:
    """One answer. `after`: seconds before it; status 0 closes the connection without a word."""

    body: str | bytes = "<p>a page</p>"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    after: float = 0.0


def page(*links: str) -> Say:
    """An HTML page with links."""
    return Say("<!doctype html><title>t</title>" + "".join(f'<a href="{link}">to {link}</a>\n' for link in links))


def moved(target: str, status: int = 302) -> Say:
    """A redirect."""
    return Say("", status, {"Location": target})


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    host: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Site:
    """Answers by `host/path`; of several answers each is given once, the last one for ever. Unknown: 404."""

    def __init__(self, answers: Mapping[str, Say | Sequence[Say]]) -> None:
        self.answers = dict(answers)
        self.asked: list[Asked] = []
        self.hits: list[Hit] = []
        self._given: defaultdict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        self.port = 0

    @property
    def resolve(self) -> str:
        """The value of RESOLVE that leads all hosts under .test here."""
        return json.dumps({"*.test": f"127.0.0.1:{self.port}"})

    def paths(self, host: str) -> list[str]:
        """The paths that were asked for at a host, in order."""
        return [asked.path for asked in self.asked if asked.host == host]

    def count(self, place: str) -> int:
        """How often `host/path` was asked for."""
        return sum(asked.host + asked.path == place for asked in self.asked)

    def answer_to(self, asked: Asked) -> Say:
        with self._lock:
            self.asked.append(asked)
            place = asked.host + asked.path
            answers = self.answers.get(place, Say("no such page", 404))
            if isinstance(answers, Say):
                return answers
            given = self._given[place]
            self._given[place] += 1
            return answers[min(given, len(answers) - 1)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def _answer(self) -> None:
        start = time.time()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        host = self.headers.get("Host", "").partition(":")[0]
        asked = Asked(self.command, host, self.path, dict(self.headers.items()), body)
        say = self.site.answer_to(asked)
        if say.after:
            threading.Event().wait(say.after)
        # Noted before it is sent: whoever sees the answer comes back later than that.
        self.site.hits.append(Hit(start, time.time(), host, self.path, say.status))
        if say.status == 0:
            self.close_connection = True
        else:
            self._say(say)

    def _say(self, say: Say) -> None:
        payload = say.body.encode() if isinstance(say.body, str) else say.body
        self.send_response(say.status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **say.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    do_GET = do_POST = do_HEAD = do_PUT = _answer  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """`hits` is the log."""


@contextmanager
def serve_site(answers: Mapping[str, Say | Sequence[Say]]) -> Iterator[Site]:
    """Serves while the block runs."""
    site = Site(answers)
    handler = type("Handler", (_Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
