"""A worker's directory of unpublished segments, and who may touch it.

``SPOOL_DIR/<crawl>/<worker>/`` belongs to the process that holds an flock on ``<worker>.lock`` beside it. The lock is
taken before the directory is made and given up after it is removed, so a directory whose lock is free was left by a
process that is gone, and whoever gets the lock adopts it. The kernel gives up the lock of a killed process.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from crawler.errors import SpoolError
from crawler.storage.journal import JOURNAL
from crawler.storage.segments import Segment, recover, sync_directory

_LOCK = ".lock"


class Spool:
    """A locked spool. Closing it gives up the lock and leaves what is in it for an adopter."""

    def __init__(self, directory: Path, lock: int) -> None:
        self.directory = directory
        self._lock = lock

    @classmethod
    def open(cls, root: Path, crawl: str, worker: str) -> Self:
        """Make and lock the spool of a worker, whose name must be new for every process.

        Raises SpoolError, naming the path, when it cannot be written or is in use.
        """
        directory = root / file_name(crawl) / file_name(worker)
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            lock = _lock(directory)
            if lock is None:
                raise SpoolError(f"spool {directory} is in use by another process")
            directory.mkdir(exist_ok=True)
            sync_directory(directory.parent)
        except OSError as error:
            raise SpoolError(f"spool {directory} cannot be written: {error.strerror or error}") from error
        return cls(directory, lock)

    @classmethod
    def adoptable(cls, root: Path, crawl: str) -> Iterator[Self]:
        """Spools of the crawl whose worker is gone, each locked for the caller as it is yielded."""
        parent = root / file_name(crawl)
        if not parent.is_dir():
            return
        for directory in sorted(path for path in parent.iterdir() if path.is_dir()):
            try:
                lock = _lock(directory)
            except OSError as error:
                raise SpoolError(f"spool {directory} cannot be adopted: {error.strerror or error}") from error
            if lock is None:
                continue
            spool = cls(directory, lock)
            if directory.is_dir():
                yield spool
            else:  # its owner removed it between our look and our lock
                spool.remove()

    def segments(self) -> list[Segment]:
        """The segments that lie here, recovered, oldest first."""
        names = sorted(path.name.removesuffix(JOURNAL) for path in self.directory.glob("*" + JOURNAL))
        return [recover(self.directory, name) for name in names]

    def lost(self) -> bool:
        """Whether the directory or its lock was removed under us, so that it is no longer ours."""
        return self._lock < 0 or os.fstat(self._lock).st_nlink == 0 or not self.directory.is_dir()

    def close(self) -> None:
        """Give up the lock; an empty spool is removed first."""
        if self._lock >= 0:
            if not any(self.directory.glob("*" + JOURNAL)):
                self.remove()
            else:
                os.close(self._lock)
                self._lock = -1

    def remove(self) -> None:
        """Remove the directory, its segments having been settled, and the lock with it."""
        for path in self.directory.glob("*"):
            path.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            self.directory.rmdir()
        _lock_path(self.directory).unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = -1


def file_name(text: str) -> str:
    """``text`` as part of a file name: what is not a letter, a digit or one of ``._-`` becomes ``_``."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def _lock_path(directory: Path) -> Path:
    return directory.with_name(directory.name + _LOCK)


def _lock(directory: Path) -> int | None:
    """A descriptor that holds the directory's lock, or None when another process has it."""
    while True:
        path = _lock_path(directory)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        os.close(descriptor)  # the lock file was removed while we waited for it: take the new one
