"""The web that a crawl benchmark crawls: `../shared/bench/webfarm.py` with real pages, or our own without it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
BENCH = REPOSITORY / "../shared/bench"
REAL_PAGES = REPOSITORY / "../shared/web/html"
WEBFARM_HOSTS = 2000
WEBFARM_PAGES = 200
OWN_HOSTS, OWN_PAGES = 300, 40
HTTP_PORT = 80


@dataclass(frozen=True)
class Web:
    """A web that is being served on loopback."""

    kind: str  # "webfarm" or "own"
    port: int
    seeds: tuple[str, ...]

    @property
    def resolve(self) -> str:
        """The value of RESOLVE that leads here."""
        return json.dumps({"*.test": f"127.0.0.1:{self.port}"})


def has_webfarm() -> bool:
    """Whether the web of real pages, and with it the peers, lie beside the repository."""
    return (BENCH / "webfarm.py").exists() and REAL_PAGES.is_dir()


@contextlib.contextmanager
def serve(latency: float = 0.0) -> Iterator[Web]:
    """Serves the better of the two webs while the block runs; `latency` seconds pass before each answer."""
    with _webfarm(latency) if has_webfarm() else _own(latency) as web:
        yield web


@contextlib.contextmanager
def _webfarm(latency: float) -> Iterator[Web]:
    port = HTTP_PORT if may_listen(HTTP_PORT) else _free_port()
    command = [sys.executable, str(BENCH / "webfarm.py"), str(REAL_PAGES), "--port", str(port)]
    command += ["--hosts", str(WEBFARM_HOSTS), "--pages", str(WEBFARM_PAGES), "--latency", str(latency)]
    suffix = "" if port == HTTP_PORT else f":{port}"
    seeds = tuple(f"http://h{i}.test{suffix}/p/{i % WEBFARM_PAGES}.html" for i in range(WEBFARM_HOSTS))
    with _child(command):
        yield Web("webfarm", port, seeds)


@contextlib.contextmanager
def _own(latency: float) -> Iterator[Web]:
    command = [sys.executable, "-m", "crawler.demo", "serve", "--plain", "--latency", str(latency)]
    command += ["--hosts", str(OWN_HOSTS), "--pages", str(OWN_PAGES)]
    with _child(command) as first_line:
        ready = json.loads(first_line)
        yield Web("own", ready["port"], tuple(f"http://h{i}.test/" for i in range(OWN_HOSTS)))


@contextlib.contextmanager
def _child(command: list[str]) -> Iterator[str]:
    """Runs a server that prints a line just before or after it listens; gives that line."""
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"the web did not start: {' '.join(command)}")
            yield line
        finally:
            process.terminate()


def may_listen(port: int) -> bool:
    """Whether this user may listen on the port, and nobody else does."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def hosts_resolve() -> bool:
    """Whether the web's hosts stand in /etc/hosts, which crawlers without a table of their own need."""
    try:
        found = {socket.gethostbyname(f"h{i}.test") for i in (0, WEBFARM_HOSTS - 1)}
    except OSError:
        return False
    return found == {"127.0.0.1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
