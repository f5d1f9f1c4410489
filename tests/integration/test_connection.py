"""Connecting: what REDIS_URL may say, and what a server that will not do is told."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions

from crawler.connection import connect
from crawler.errors import BadSetting, FrontierUnavailable
from crawler.options import Options
from tests.support.servers import RedisServer

StartServer = Callable[..., RedisServer]


async def refusal(url: str, **params: Any) -> str:
    """Why the connection fails; the message never holds the password."""
    with pytest.raises((FrontierUnavailable, BadSetting)) as caught:
        await connect(Options(redis_url=url, redis_params=params))
    assert "geheim" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def free_port() -> int:
    """A port of loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_url_gives_a_client_that_answers_bytes(redis_server: RedisServer) -> None:
    connection = await connect(Options(redis_url=redis_server.url))
    await connection.client.set("a", "b")
    assert await connection.client.get("a") == b"b"
    await connection.close()


async def test_a_url_may_name_port_database_user_and_password(
    start_server: StartServer, server_kind: str, free_port: int
) -> None:
    start_server(server_kind, port=free_port, options={"requirepass": "ge/heim#1"})
    connection = await connect(Options(redis_url=f"redis://default:ge%2Fheim%231@127.0.0.1:{free_port}/3"))
    await connection.client.set("a", "b")
    assert (await connection.client.info("keyspace"))["db3"]["keys"] == 1
    await connection.close()


async def test_params_of_scrapy_redis_are_taken(redis_server: RedisServer) -> None:
    params = {"socket_timeout": 7, "retry_on_timeout": True, "encoding": "latin-1", "decode_responses": True, "db": 2}
    connection = await connect(Options(redis_url=redis_server.url, redis_params=params))
    await connection.client.set("a", "b")
    assert await connection.client.get("a") == b"b"
    assert (await connection.client.info("keyspace"))["db2"]["keys"] == 1
    await connection.close()


async def test_without_a_url_the_embedded_server_answers_and_is_revived(tmp_path: Path) -> None:
    connection = await connect(Options(embedded_dir=str(tmp_path / ".longline"), embedded_appendfsync="always"))
    assert connection.embedded is not None
    await connection.client.set("a", "b")
    await connection.client.shutdown()
    with pytest.raises(redis.exceptions.ConnectionError):
        await connection.client.get("a")
    await connection.revive()
    assert await connection.client.get("a") == b"b"
    await connection.close()
    assert not connection.embedded._is_alive()


async def test_nobody_listening_is_named(free_port: int) -> None:
    assert f"127.0.0.1:{free_port} cannot be reached" in await refusal(f"redis://u:geheim@127.0.0.1:{free_port}")


async def test_a_server_that_is_being_restarted_is_waited_for(start_server: StartServer) -> None:
    server = start_server()
    server.kill9()
    connecting = asyncio.create_task(connect(Options(redis_url=server.url)))
    await asyncio.sleep(0)
    await asyncio.to_thread(server.start)
    await (await connecting).close()


async def test_a_server_that_loads_its_data_is_waited_for(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(appendfsync="everysec")
    with server.sync_client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"key {number}", "value")
        pipe.execute()
    server.stop()
    server.options |= {"key-load-delay": "3000", "loading-process-events-interval-bytes": "1024"}  # microseconds, bytes
    connecting = asyncio.create_task(connect(Options(redis_url=server.url)))
    await asyncio.to_thread(server.start)
    await (await connecting).close()
    assert "is still loading its data" in caplog.text or "cannot be reached" in caplog.text  # said once
    assert len(caplog.records) == 1


async def test_a_wrong_password_is_called_that(start_server: StartServer, server_kind: str) -> None:
    server = start_server(server_kind, options={"requirepass": "right"})
    assert "refuses our user name or password" in await refusal(f"{server.url}?password=geheim")
    assert "refuses our user name or password" in await refusal(server.url)


async def test_a_frozen_server_does_not_answer_in_time(start_server: StartServer) -> None:
    server = start_server()
    server.pause()
    assert "does not answer in time" in await refusal(server.url, socket_timeout=0.1)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://127.0.0.1:99999", "REDIS_URL"),
        ("redis://:geheim/x@127.0.0.1", "must be percent-encoded"),
        ("redis://127.0.0.1/0?socket_timeout=soon", "REDIS_URL"),
    ],
)
async def test_a_url_that_does_not_parse(url: str, says: str) -> None:
    assert says in await refusal(url)


async def test_an_unknown_param_is_named() -> None:
    assert "'sockettimeout'" in await refusal("redis://127.0.0.1", sockettimeout=1)


async def test_a_server_that_would_evict_keys_is_refused(start_server: StartServer, server_kind: str) -> None:
    server = start_server(server_kind, options={"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"})
    assert "maxmemory-policy noeviction" in await refusal(server.url)


async def test_a_server_that_is_full_without_eviction_will_do(start_server: StartServer) -> None:
    server = start_server(options={"maxmemory": "100mb", "maxmemory-policy": "noeviction"})
    await (await connect(Options(redis_url=server.url))).close()


async def test_a_server_that_packs_too_little_is_refused(start_server: StartServer) -> None:
    server = start_server(options={"set-max-intset-entries": "100"})
    assert "set-max-intset-entries 100" in await refusal(server.url)


async def test_a_user_that_may_not_see_the_configuration_is_warned(
    start_server: StartServer, server_kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(server_kind)
    with server.sync_client() as client:
        client.execute_command("ACL", "SETUSER", "worker", "on", ">pw", "~*", "+@all", "-config", "-info")
    with caplog.at_level(logging.WARNING):
        connection = await connect(Options(redis_url=f"unix://worker@{server.socket}?password=pw"))
    await connection.close()
    assert "maxmemory-policy" in caplog.text
    assert "set-max-intset-entries" in caplog.text
