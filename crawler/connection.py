"""A Redis client from the options: to REDIS_URL, or to the embedded server where that is empty.

redis-py's own retries are off: a script may have run although its reply was lost, so only the frontier, whose calls
may be repeated whole, repeats anything. Errors leave here as FrontierUnavailable and name the server, never its
password.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawler.embedded import Embedded
from crawler.errors import BadSetting, FrontierUnavailable
from crawler.options import Options

logger = logging.getLogger(__name__)

SOCKET_TIMEOUT = 10.0  # seconds without an answer after which a call counts as lost
CONNECT_TIMEOUT = 5.0  # seconds
LOADING_PATIENCE = 300.0  # seconds for which a server that loads its data is waited for at the start
RESTART_PATIENCE = 2.0  # seconds for which one that refuses connections is: it may be on its way back
GREET_INTERVAL = 0.2  # seconds between two tries
MAX_CONNECTIONS = 32  # sockets of one worker; a call waits for a free one
INTSET_ENTRIES = 512  # members of a seen-set bucket that must still be packed as an intset

# Ours, whatever REDIS_PARAMS says: scripts answer bytes, and nothing but the frontier repeats a call.
FIXED_PARAMS = frozenset({"decode_responses", "encoding", "redis_cls", "retry", "retry_on_error", "retry_on_timeout"})


@dataclass
class Connection:
    """A client that has been answered, the server's address for messages, and the embedded server if it is that."""

    client: Redis
    address: str
    embedded: Embedded | None = None

    async def revive(self) -> None:
        """Start the embedded server again if it is dead; of another server, nothing is done.

        Call it after a connection error, then repeat the call. Raises FrontierUnavailable.
        """
        if self.embedded is not None:
            await asyncio.to_thread(self.embedded.ensure)

    def unavailable(self, error: Exception) -> FrontierUnavailable:
        """The error to raise for one of redis-py's or the system's."""
        return FrontierUnavailable(explain(error, self.address))

    async def close(self) -> None:
        """Close the sockets; the embedded server stops with its last user."""
        await self.client.aclose()
        if self.embedded is not None:
            await asyncio.to_thread(self.embedded.leave)


async def connect(options: Options) -> Connection:
    """Connect, and check that the server will keep what we store.

    Raises FrontierUnavailable when the server does not answer, and BadSetting when REDIS_URL or REDIS_PARAMS make no
    sense or the server is configured to forget keys.
    """
    if options.redis_url:
        connection = _to_url(options)
    else:
        embedded = Embedded(options.embedded_dir, options.embedded_appendfsync)
        await asyncio.to_thread(embedded.ensure)
        connection = Connection(_client(f"unix://{embedded.socket}", {}), "the embedded server", embedded)
    try:
        await _greet(connection)
        await _check_memory(connection)
        await _check_intsets(connection)
    except (RedisError, OSError) as error:
        await connection.close()
        raise connection.unavailable(error) from error
    except BaseException:
        await connection.close()
        raise
    return connection


async def _greet(connection: Connection) -> None:
    """Await the first answer: a server that loads its data is waited for, and one that is just being restarted."""
    begun = time.monotonic()
    while True:
        try:
            await connection.client.ping()
        except (RedisError, OSError) as error:
            waited = time.monotonic() - begun
            if waited > _patience(error):
                raise
            if waited < GREET_INTERVAL:
                logger.warning("%s: waiting", explain(error, connection.address))
        else:
            return
        await asyncio.sleep(GREET_INTERVAL)


def _patience(error: Exception) -> float:
    """Seconds to try again for; none after a time-out or a refusal, which another try would not change."""
    met = tuple(_chain(error))
    if any(isinstance(one, BusyLoadingError) for one in met):
        return LOADING_PATIENCE
    if any(isinstance(one, AuthenticationError | RedisTimeoutError | ResponseError | TimeoutError) for one in met):
        return -1.0
    return RESTART_PATIENCE


def explain(error: BaseException, address: str) -> str:
    """What happened at `address`, in words an operator can act on."""
    met = tuple(_chain(error))  # redis-py wraps what happens while it connects
    said = str(error) or type(error).__name__

    def is_a(*kinds: type[BaseException]) -> bool:
        return any(isinstance(one, kinds) for one in met)

    if is_a(BusyLoadingError):
        return f"{address} is still loading its data"
    if is_a(AuthenticationError) or said.startswith("NOAUTH"):
        return f"{address} refuses our user name or password ({said})"
    if is_a(NoPermissionError):
        return f"{address} does not allow this user what a crawl needs ({said})"
    if is_a(RedisTimeoutError, TimeoutError):
        return f"{address} does not answer in time"
    if is_a(ResponseError):
        return f"{address} answers: {said}"
    return f"{address} cannot be reached: {said}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _to_url(options: Options) -> Connection:
    params = {name: value for name, value in options.redis_params.items() if name not in FIXED_PARAMS}
    try:
        client = _client(options.redis_url, params)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # a parameter that is unknown shows only here
    except TypeError as error:
        raise BadSetting(f"REDIS_PARAMS: {error}") from error
    except ValueError:  # its message may quote a password that was taken for a port
        raise BadSetting(
            "REDIS_URL: it does not parse (not shown); the user name and password must be percent-encoded"
        ) from None
    return Connection(client, _address(pool.connection_kwargs))


def _client(url: str, params: dict[str, Any]) -> Redis:
    defaults = {
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "max_connections": MAX_CONNECTIONS,
        "timeout": None,
    }
    merged = {**defaults, **params, "decode_responses": False, "retry": Retry(NoBackoff(), 0)}
    return Redis.from_pool(BlockingConnectionPool.from_url(url, **merged))


def _address(arguments: dict[str, Any]) -> str:
    if path := arguments.get("path"):
        return f"Redis at {path}"
    return f"Redis at {arguments.get('host', 'localhost')}:{arguments.get('port', 6379)}"


async def _check_memory(connection: Connection) -> None:
    """A server that evicts keys would forget URLs, leases and delays without a word."""
    try:
        memory = await connection.client.info("memory")
    except NoPermissionError:
        logger.warning("%s does not let us see its maxmemory-policy; it must be noeviction", connection.address)
        return
    policy = memory.get("maxmemory_policy", "noeviction")
    if memory.get("maxmemory", 0) and policy != "noeviction":
        raise BadSetting(
            f"REDIS_URL: {connection.address} would drop keys when full (maxmemory-policy {policy});"
            " it must run with maxmemory-policy noeviction"
        )


async def _check_intsets(connection: Connection) -> None:
    """Beyond the limit a bucket of the seen set costs five times the memory."""
    try:
        entries = await connection.client.config_get("set-max-intset-entries")
    except ResponseError:  # by ACL, or because a hosted server has no CONFIG
        logger.warning(
            "%s does not let us see its set-max-intset-entries; it must be at least %d",
            connection.address,
            INTSET_ENTRIES,
        )
        return
    limit = int(entries.get("set-max-intset-entries") or INTSET_ENTRIES)
    if limit < INTSET_ENTRIES:
        raise BadSetting(
            f"REDIS_URL: {connection.address} runs with set-max-intset-entries {limit};"
            f" it must be at least {INTSET_ENTRIES}"
        )
