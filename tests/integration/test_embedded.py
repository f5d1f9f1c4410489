"""The embedded server: one for all, revived by anyone, stopped by the last."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from crawler.embedded import SOCKET_PATH_MAX, Embedded, find_server
from crawler.errors import FrontierUnavailable
from tests.support.poll import until
from tests.support.servers import binary_of

ROOT = Path(__file__).parents[2]

# Joins, says so, leaves when its standard input ends.
USER = """
import sys
from crawler.embedded import Embedded
server = Embedded(sys.argv[1])
server.ensure()
print("in", flush=True)
sys.stdin.read()
server.leave()
"""

StartUser = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where the server lives; one that a failed test left there is killed."""
    path = tmp_path / ".longline"
    yield path
    if path.exists() and (server := Embedded(path))._is_alive():
        os.kill(pid_of(server), signal.SIGKILL)


@pytest.fixture
def embedded(directory: Path) -> Iterator[Embedded]:
    server = Embedded(directory, appendfsync="always")
    yield server
    server.leave()


@pytest.fixture
def start_user(directory: Path) -> Iterator[StartUser]:
    """Start a process that uses the server; it leaves when its stdin is closed."""
    users: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        users.append(
            subprocess.Popen(
                [sys.executable, "-c", USER, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
            )
        )
        return users[-1]

    yield start
    for user in users:
        with user:
            user.kill()


def joined(user: subprocess.Popen[bytes]) -> None:
    assert user.stdout is not None
    assert user.stdout.readline() == b"in\n"


def leave(user: subprocess.Popen[bytes]) -> None:
    user.communicate(timeout=30)
    assert user.returncode == 0


def client(server: Embedded) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(server.socket))


def pid_of(server: Embedded) -> int:
    with client(server) as connection:
        return int(connection.info("server")["process_id"])


def kill9(server: Embedded) -> None:
    os.kill(pid_of(server), signal.SIGKILL)
    until(lambda: not server._is_alive(), 10, "the server's death")


def put(server: Embedded, key: str) -> None:
    with client(server) as connection:
        connection.set(key, "kept")


def get(server: Embedded, key: str) -> bytes | None:
    with client(server) as connection:
        return connection.get(key)


def aof(server: Embedded) -> Path:
    return next(server.directory.glob("appendonlydir/*.incr.aof"))


def test_it_starts_answers_and_stops(embedded: Embedded) -> None:
    embedded.ensure()
    put(embedded, "a")
    embedded.leave()
    assert not embedded._is_alive()
    assert not embedded.socket.exists()


def test_its_data_outlives_it(embedded: Embedded) -> None:
    embedded.ensure()
    put(embedded, "a")
    embedded.leave()
    embedded.ensure()
    assert get(embedded, "a") == b"kept"


def test_ensure_and_leave_may_be_repeated(embedded: Embedded) -> None:
    embedded.leave()
    embedded.ensure()
    pid = pid_of(embedded)
    embedded.ensure()
    assert pid_of(embedded) == pid
    embedded.leave()
    embedded.leave()


def test_it_keeps_what_it_was_told_to_keep(embedded: Embedded) -> None:
    embedded.ensure()
    with client(embedded) as connection:
        config = connection.config_get("*")
    wanted = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "port": "0", "save": ""}
    assert {name: config[name] for name in wanted} == wanted


def test_nobody_else_may_reach_it(embedded: Embedded) -> None:
    embedded.directory.mkdir(mode=0o755)
    embedded.ensure()
    assert stat.S_IMODE(embedded.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(embedded.socket.stat().st_mode) == 0o700


def test_processes_that_start_it_at_once_share_one(embedded: Embedded, start_user: StartUser) -> None:
    users = [start_user() for _ in range(4)]
    for user in users:
        joined(user)
    embedded.ensure()
    assert embedded.log.read_text().lower().count("ready to accept connections") == 1
    for user in users:
        leave(user)


def test_only_the_last_one_leaving_stops_it(embedded: Embedded, start_user: StartUser) -> None:
    first, second = start_user(), start_user()
    joined(first)
    joined(second)
    leave(first)
    assert embedded._is_alive()
    leave(second)
    assert not embedded._is_alive()


def test_users_that_leave_at_once_leave_nothing_running(embedded: Embedded, start_user: StartUser) -> None:
    users = [start_user() for _ in range(4)]
    for user in users:
        joined(user)
        assert user.stdin is not None
        user.stdin.close()
    for user in users:
        user.wait(timeout=30)
    assert not embedded._is_alive()


def test_it_outlives_its_starter(embedded: Embedded, start_user: StartUser) -> None:
    starter = start_user()
    joined(starter)
    embedded.ensure()
    put(embedded, "a")
    starter.kill()
    starter.wait()
    assert get(embedded, "a") == b"kept"
    embedded.leave()
    assert not embedded._is_alive()


def test_ctrl_c_does_not_reach_it(embedded: Embedded, start_user: StartUser) -> None:
    joined(start_user())
    assert os.getsid(pid_of(embedded)) != os.getsid(0)


def test_whoever_finds_it_dead_revives_it_with_its_data(embedded: Embedded, start_user: StartUser) -> None:
    joined(start_user())
    embedded.ensure()
    put(embedded, "a")
    kill9(embedded)
    embedded.ensure()
    assert get(embedded, "a") == b"kept"


def test_a_stale_socket_and_pid_file_are_no_obstacle(embedded: Embedded) -> None:
    embedded.directory.mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(embedded.socket))
    (embedded.directory / "redis.pid").write_text("1")
    embedded.ensure()
    put(embedded, "a")


def test_a_truncated_end_of_its_file_is_dropped(embedded: Embedded) -> None:
    embedded.ensure()
    put(embedded, "a")
    put(embedded, "b")
    kill9(embedded)
    with aof(embedded).open("r+b") as file:
        file.truncate(aof(embedded).stat().st_size - 5)
    embedded.ensure()
    assert (get(embedded, "a"), get(embedded, "b")) == (b"kept", None)


def test_a_damaged_file_is_named(embedded: Embedded) -> None:
    embedded.ensure()
    put(embedded, "a")
    put(embedded, "b")
    kill9(embedded)
    damaged = aof(embedded)
    damaged.write_bytes(damaged.read_bytes().replace(b"*3\r\n$3\r\nSET", b"*3\r\n!!!\r\nSET", 1))
    with pytest.raises(FrontierUnavailable) as caught:
        embedded.ensure()
    assert str(damaged) in str(caught.value)
    assert str(embedded.log) in str(caught.value)


def test_a_server_that_cannot_start_says_why(embedded: Embedded) -> None:
    embedded.appendfsync = "sometimes"
    with pytest.raises(FrontierUnavailable, match="ended at its start"):
        embedded.ensure()


def test_a_frozen_server_is_not_doubled(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded.ensure()
    pid = pid_of(embedded)
    os.kill(pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as hurried:
            hurried.setattr("crawler.embedded.ANSWER_TIMEOUT", 0.1)
            with pytest.raises(FrontierUnavailable, match="runs but answers nothing"):
                embedded.ensure()
    finally:
        os.kill(pid, signal.SIGCONT)
    embedded.ensure()
    assert pid_of(embedded) == pid


def test_a_path_too_long_for_a_socket_has_a_short_one_elsewhere(tmp_path: Path) -> None:
    server = Embedded(tmp_path / ("x" * 100) / ".longline")
    server.ensure()
    try:
        assert len(os.fsencode(server.socket)) <= SOCKET_PATH_MAX
        assert stat.S_IMODE(server.socket.parent.stat().st_mode) == 0o700
        assert Embedded(server.directory).socket == server.socket
        put(server, "a")
    finally:
        server.leave()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FrontierUnavailable, match="file"):
        Embedded(tmp_path / "file" / ".longline").ensure()


def test_a_server_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).touch(mode=0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert find_server() == str(tmp_path / name)


def test_without_one_on_path_the_wheels_server_runs(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_server() == binary_of("valkey")
    embedded.ensure()
    put(embedded, "a")


def test_data_stays_with_the_server_that_wrote_it(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as bare:
        bare.setenv("PATH", "")
        embedded.ensure()
        embedded.leave()
    embedded.ensure()
    with client(embedded) as connection:
        assert connection.info("server")["server_name"] == "valkey"
