"""Where the corpus stands: the interface of a sink, and the one that is a directory.

A sink's calls block and are made from threads. Each may be repeated, by anyone, with the same effect; each raises
SinkError, naming the path, when the corpus cannot be written or read just now, so that the caller tries again later.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from crawler.errors import BadSetting, SinkError
from crawler.storage.segments import sync_directory

PREFIXES: Final = ("documents", "fetchlog")
"""First parts of the keys of objects that hold rows."""

_TEMPORARY_AGE: Final = 86400.0
"""Seconds after which a file that a dead process was writing is in nobody's use."""


class Sink(Protocol):
    """What publication needs of a store. Keys are relative, with ``/`` between their parts."""

    def probe(self) -> None:
        """Find out whether the corpus can be written, and make what it needs."""

    def put(self, key: str, path: Path) -> None:
        """Store a file where no reader looks yet. A key carries its content's hash: equal keys are equal objects."""

    def show(self, key: str) -> None:
        """Let readers see a stored object, the segment being decided; nothing to do when it is seen already."""

    def put_manifest(self, segment: str, text: str) -> None:
        """Write a segment's manifest, after its objects are shown."""

    def manifests(self) -> Iterator[str]:
        """Names of the segments that have a manifest, in order. Raises SinkError when there is no corpus."""

    def read_manifest(self, segment: str) -> bytes:
        """The text of a segment's manifest."""

    def keys(self, prefix: str) -> Iterator[str]:
        """Keys of the objects under a prefix that readers see, in order."""

    def open(self, key: str) -> BinaryIO:
        """An object's bytes, for reading. Raises FileNotFoundError when there is none."""

    def staged(self) -> Iterator[str]:
        """Keys that were stored and are not shown."""

    def discard(self, key: str) -> None:
        """Remove a stored object that is not shown and never will be."""


def open_sink(output: str) -> Sink:
    """The sink for an OUTPUT setting. Raises BadSetting for a URL of a store that this release does not have."""
    if "://" in output:
        raise BadSetting(f"OUTPUT: {output!r} is not a directory")
    return DirectorySink(Path(output))


class DirectorySink:
    """A corpus in a directory. What is not shown yet lies under ``.staging/``; showing renames it, so a glob of
    ``documents/`` is exact."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._staging = root / ".staging"
        self._manifests = root / "manifests"

    def probe(self) -> None:
        with _said(self.root):
            for directory in (self._staging / "tmp", self._manifests, *(self.root / prefix for prefix in PREFIXES)):
                directory.mkdir(parents=True, exist_ok=True)
            self._write(self._staging / "probe", b"")
            (self._staging / "probe").unlink(missing_ok=True)

    def put(self, key: str, path: Path) -> None:
        target = self._staging / key
        with _said(target):
            if target.exists() or (self.root / key).exists():
                return
            temporary = self._temporary()
            try:
                os.link(path, temporary)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                    raise
                _copy(path, temporary)
            self._move(temporary, target)

    def show(self, key: str) -> None:
        staged, shown = self._staging / key, self.root / key
        with _said(shown):
            if shown.exists():
                staged.unlink(missing_ok=True)
                return
            try:
                self._move(staged, shown)
            except FileNotFoundError:
                if not shown.exists():  # somebody else showed it just now
                    raise

    def put_manifest(self, segment: str, text: str) -> None:
        path = self._manifests / f"{segment}.json"
        with _said(path):
            self._write(path, text.encode())

    def manifests(self) -> Iterator[str]:
        if not self._manifests.is_dir():
            raise SinkError(f"{self.root} is no corpus: it has no directory manifests")
        with _said(self._manifests):
            names = sorted(path.name for path in self._manifests.iterdir())
        return (name.removesuffix(".json") for name in names if name.endswith(".json"))

    def read_manifest(self, segment: str) -> bytes:
        path = self._manifests / f"{segment}.json"
        with _said(path):
            return path.read_bytes()

    def keys(self, prefix: str) -> Iterator[str]:
        return _keys(self.root, prefix)

    def open(self, key: str) -> BinaryIO:
        return open(self.root / key, "rb")

    def staged(self) -> Iterator[str]:
        for prefix in PREFIXES:
            yield from _keys(self._staging, prefix)
        self._sweep_temporaries()

    def discard(self, key: str) -> None:
        with _said(self._staging / key):
            (self._staging / key).unlink(missing_ok=True)

    def _temporary(self) -> Path:
        directory = self._staging / "tmp"
        directory.mkdir(parents=True, exist_ok=True)
        return directory / secrets.token_hex(8)

    def _sweep_temporaries(self) -> None:
        with _said(self._staging):
            for path in (self._staging / "tmp").glob("*"):
                with suppress(FileNotFoundError):  # its writer has just moved it to its place
                    if path.stat().st_mtime < time.time() - _TEMPORARY_AGE:
                        path.unlink()

    def _write(self, path: Path, data: bytes) -> None:
        temporary = self._temporary()
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._move(temporary, path)

    def _move(self, source: Path, target: Path) -> None:
        if not target.parent.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            sync_directory(target.parent.parent)
        source.replace(target)
        sync_directory(target.parent)


def _keys(root: Path, prefix: str) -> Iterator[str]:
    for directory, directories, names in os.walk(root / prefix):
        directories.sort()
        for name in sorted(names):
            yield (Path(directory) / name).relative_to(root).as_posix()


def _copy(source: Path, target: Path) -> None:
    try:
        with open(source, "rb") as reader, open(target, "wb") as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)
            writer.flush()
            os.fsync(writer.fileno())
    except OSError:
        target.unlink(missing_ok=True)
        raise


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into one that names the path."""
    try:
        yield
    except OSError as error:
        raise SinkError(f"{path}: {error.strerror or error}") from error
