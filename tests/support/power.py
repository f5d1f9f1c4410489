"""A power cut under a Redis server: what was written and not yet on disk is gone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import redis

from tests.support.poll import until
from tests.support.servers import RedisServer

LOST = 4096  # bytes that the server has acknowledged and that a cut takes back, at least
MARK = "power"  # a key of ours, outside any crawl
WITHIN = 0.7  # seconds; with everysec the next fsync begins a second after the last one began


def cut_power(server: RedisServer, deadline_s: float = 30.0) -> int:
    """Kill the server and cut its files back to what had been fsynced. Returns how many acknowledged bytes that took.

    With appendfsync always nothing that was acknowledged can be cut; so the server first goes over to everysec, where
    the last second may be lost. WAITAOF tells when a sync is over: the files' sizes are taken then, and the server is
    killed while it still says that what was written after that is not on disk. Nothing that any client was told to be
    on disk is lost, as in a real power cut. The server must be started again.
    """
    with server.sync_client() as client:
        client.config_set("appendfsync", "everysec")
        sizes = until(lambda: _before_the_next_sync(client, server), deadline_s, "a moment between two syncs")
    return cut_back(server, sizes)


def cut_back(server: RedisServer, sizes: Mapping[Path, int]) -> int:
    """Kill the server and cut its files back to sizes that they had before. Returns how many bytes that took."""
    server.kill9()
    lost = 0
    for path, size in sizes.items():
        lost += path.stat().st_size - size
        os.truncate(path, size)
    return lost


def _before_the_next_sync(client: redis.Redis, server: RedisServer) -> dict[Path, int] | None:
    """Sizes of the files after a sync, once enough was written since and not synced; None: a sync came between."""
    client.incr(MARK)
    if not client.waitaof(1, 0, 5000)[0]:
        return None
    sizes = file_sizes(server)
    client.incr(MARK)  # what WAITAOF answers for next: the first write that the cut takes back
    try:
        until(lambda: sum(file_sizes(server).values()) >= sum(sizes.values()) + LOST, WITHIN)
    except AssertionError:
        return None
    return None if client.waitaof(1, 0, 1)[0] else sizes


def file_sizes(server: RedisServer) -> dict[Path, int]:
    """Bytes of each file that the server appends to."""
    return {path: path.stat().st_size for path in (server.directory / "appendonlydir").iterdir()}
