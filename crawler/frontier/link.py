"""The way to Redis: scripts and commands of one partition, repeated whole when a reply is lost, errors mapped once.

Repeating is safe because every call may be repeated with the same effect once (invariant 7); redis-py's own retries
must be off.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from hiredis import pack_command
from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004
)

from crawler.errors import FrontierError, FrontierUnavailable
from crawler.frontier.keys import tag
from crawler.frontier.scripts import Script, scripts

BACKOFF_FIRST: Final = 0.05  # seconds
BACKOFF_MOST: Final = 2.0  # seconds

_FOR_NOW = ("BUSY", "LOADING", "MISCONF", "TRYAGAIN", "OOM", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS")

T = TypeVar("T")
Argument = bytes | str | int | float


def is_lost(error: Exception) -> bool:
    """Whether the connection, and with it perhaps a reply, was lost."""
    refused = isinstance(error, AuthenticationError)
    return isinstance(error, ConnectionError | TimeoutError | OSError) and not refused


def is_passing(error: Exception) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, BusyLoadingError | ReadOnlyError | OutOfMemoryError) or is_lost(error):
        return True
    return isinstance(error, ResponseError) and str(error).startswith(_FOR_NOW)


def explained(error: Exception) -> FrontierError:
    """The error of ours for one of redis-py's."""
    said = f"{type(error).__name__}: {error}"
    if is_passing(error):
        return FrontierUnavailable(f"Redis does not serve us now: {said}")
    if isinstance(error, AuthenticationError | NoPermissionError) or str(error).startswith(("NOAUTH", "NOPERM")):
        return FrontierUnavailable(f"Redis refuses us: {said}")
    return FrontierError(f"Redis refused a call: {said}")


class Link:
    """Calls to the partitions of one crawl.

    ``patience``: seconds during which a call is repeated before FrontierUnavailable is raised. ``revive`` is
    awaited after a lost connection, before the next try: it may start an embedded server. ``lost`` counts lost
    connections, ``lost_at`` is when the last one was lost, by ``clock``.
    """

    def __init__(
        self,
        client: Redis,
        crawl: str,
        *,
        patience: float = 5.0,
        revive: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.client = client
        self.crawl = crawl
        self.lost = 0
        self.lost_at = float("-inf")
        self._patience = patience
        self._revive = revive
        self._clock = clock
        self._sleep = sleep
        self._keys: dict[tuple[str, int], list[str]] = {}

    def key(self, partition: int, name: str) -> str:
        """The full name of a partition's key."""
        return tag(self.crawl, partition) + name

    async def pause(self, seconds: float) -> None:
        """Sleep, by the injected clock's sleep."""
        await self._sleep(seconds)

    async def run(self, name: str, partition: int, args: Sequence[Argument]) -> Any:
        """Run a script in a partition. Raises FrontierUnavailable, FrontierError."""
        script = scripts()[name]
        keys = self._keys.get((name, partition))
        if keys is None:
            keys = self._keys[name, partition] = [self.key(partition, key) for key in script.keys]
        return await self.repeat(lambda: self._evaluate(script, keys, args))

    async def command(self, *parts: Argument) -> Any:
        """Run one command. Raises FrontierUnavailable, FrontierError."""
        return await self.repeat(lambda: self._execute(*parts))

    async def _execute(self, *parts: Argument) -> Any:
        return await self.client.execute_command(*parts)  # type: ignore[no-untyped-call]

    async def _evaluate(self, script: Script, keys: list[str], args: Sequence[Argument]) -> Any:
        try:
            return await self._send(("EVALSHA", script.sha, len(keys), *keys, *args))
        except NoScriptError:  # the server is new, or was told to forget; EVAL leaves the script there
            return await self._execute("EVAL", script.text, len(keys), *keys, *args)

    async def _send(self, parts: tuple[Any, ...]) -> Any:
        """As `Redis.execute_command`, but packed by hiredis: scripts have thousands of arguments."""
        pool = self.client.connection_pool
        connection: Any = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.send_packed_command([pack_command(parts)])
            return await connection.read_response()
        finally:
            await pool.release(connection)

    async def repeat(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await ``call()`` until it answers; with back-off and jitter, for ``patience`` seconds at most."""
        give_up = self._clock() + self._patience
        pause = BACKOFF_FIRST
        while True:
            try:
                return await call()
            except (RedisError, OSError) as error:
                if is_lost(error):
                    self.lost += 1
                    self.lost_at = self._clock()
                if not is_passing(error) or self._clock() + pause > give_up:
                    raise explained(error) from error
                lost = is_lost(error)
            await self._sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, BACKOFF_MOST)
            if lost and self._revive is not None:
                await self._revive()
