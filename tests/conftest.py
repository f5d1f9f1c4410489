"""Fixtures: servers of every kind we promise to run on. And the rule that CI skips nothing without a listed reason."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import redis.asyncio

from tests.support.servers import KINDS, RedisServer, binary_of

Skip = tuple[str, str]  # node id, reason
unlisted_skips: list[Skip] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fail-on-unlisted-skips",
        action="store_true",
        help="fail when a test is skipped for a reason not in skips.toml",
    )


def listed_skips() -> list[str]:
    """The words of the skips that are right."""
    table = tomllib.loads((Path(__file__).parent / "skips.toml").read_text(encoding="utf-8"))
    return [entry["says"] for entry in table["skip"]]


def note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(says in reason for says in listed_skips()):
            unlisted_skips.append((report.nodeid, reason))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    note_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    note_skip(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--fail-on-unlisted-skips") and unlisted_skips and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--fail-on-unlisted-skips") and unlisted_skips:
        terminalreporter.section("skipped for a reason that tests/skips.toml does not list", red=True)
        for nodeid, reason in unlisted_skips:
            terminalreporter.line(f"{nodeid}: {reason}")


def server_binary(kind: str) -> str:
    """The server's path; skips the test when this machine has none of the kind."""
    binary = binary_of(kind)
    if binary is None:
        pytest.skip(f"no {kind}-server on PATH")
    return binary


@pytest.fixture(scope="session", params=KINDS)
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server of each kind for the whole session, without persistence; use `redis_server`, which empties it."""
    with RedisServer(server_binary(request.param), tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One Valkey for the crawls of a whole session; each crawl has a CRAWL_ID of its own. It keeps a file, since what
    is on disk can be waited for: without one a publication takes two seconds."""
    with RedisServer(server_binary("valkey"), tmp_path_factory.mktemp("crawls"), appendfsync="always") as server:
        yield server


@pytest.fixture
def redis_server(shared_server: RedisServer) -> RedisServer:
    """An empty server, once for each kind. It is shared: tests that stop or freeze one take `start_server`."""
    with shared_server.sync_client() as client:
        client.flushall()
        client.script_flush()
    return shared_server


@pytest.fixture
async def redis_client(redis_server: RedisServer) -> AsyncIterator[redis.asyncio.Redis]:
    """A client of `redis_server`."""
    async with redis_server.client() as client:
        yield client


@pytest.fixture(params=KINDS)
def server_kind(request: pytest.FixtureRequest) -> str:
    """Each kind of server in turn."""
    return str(request.param)


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Start a server of one's own: `start_server(kind="valkey", appendfsync="always", ...)`; ended with the test."""
    started: list[RedisServer] = []

    def start(kind: str = "valkey", **arguments: object) -> RedisServer:
        server = RedisServer(server_binary(kind), tmp_path / f"server{len(started)}", **arguments)  # type: ignore[arg-type]
        started.append(server.start())
        return server

    yield start
    for server in started:
        if server.process is not None:
            server.kill9()
