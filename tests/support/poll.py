"""Wait for a condition, with a deadline; the only way a test may wait for time to pass."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")

INTERVAL = 0.01  # seconds between two looks


def until(condition: Callable[[], T], deadline_s: float, what: str = "") -> T:
    """Call `condition` until it is true and return its value; AssertionError after `deadline_s` seconds."""
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(_late(condition, deadline_s, what, value))
        threading.Event().wait(INTERVAL)
    return value


async def until_async(condition: Callable[[], T | Awaitable[T]], deadline_s: float, what: str = "") -> T:
    """The same without blocking the loop; `condition` may be a coroutine function."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return cast("T", value)
        if time.monotonic() > end:
            raise AssertionError(_late(condition, deadline_s, what, value))
        await _tick()


async def _tick() -> None:
    loop = asyncio.get_running_loop()
    tick = loop.create_future()
    loop.call_later(INTERVAL, tick.set_result, None)
    await tick


def _late(condition: Callable[[], object], deadline_s: float, what: str, value: object) -> str:
    name = what or getattr(condition, "__qualname__", repr(condition))
    return f"{name} did not come true within {deadline_s} s; last value {value!r}"
