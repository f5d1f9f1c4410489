"""What a worker does beside the engine: calls that are repeated until the frontier answers, and troubles said once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from crawler.errors import FrontierUnavailable

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")


class Background:
    """Calls in the background of the engine. ``closing_by``: the monotonic second after which an unreachable frontier
    is given up; 0 while the worker is at work."""

    def __init__(self) -> None:
        self.closing_by = 0.0
        self._running: set[asyncio.Future[Any]] = set()
        self._said: set[str] = set()

    def later(self, call: Callable[[], Awaitable[Reply]], then: Callable[[Reply], None] | None = None) -> None:
        """Make ``call`` until the frontier answers, then pass the answer on. `drain` waits for it."""
        task = asyncio.ensure_future(self.answer(call))
        self._running.add(task)

        def done(finished: asyncio.Future[Reply]) -> None:
            self._running.discard(finished)
            if finished.cancelled():
                return
            error = finished.exception()
            if error is not None:
                logger.error("frontier call failed: %s", error, exc_info=error)
            elif then is not None:
                then(finished.result())

        task.add_done_callback(done)

    async def answer(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """The answer to ``call``, repeated while the frontier is away, which is said once. Raises FrontierUnavailable
        when a closing worker has waited long enough."""
        while True:
            try:
                return await call()
            except FrontierUnavailable as error:
                if self.closing_by and time.monotonic() > self.closing_by:
                    raise
                self.say_once("frontier", "frontier: %s; what this worker holds is kept until it is back", error)

    async def drain(self) -> None:
        """Wait until every answer that is on its way has come in."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    def say_once(self, topic: str, message: str, *args: object) -> None:
        """Log a warning the first time its topic comes up."""
        if topic not in self._said:
            self._said.add(topic)
            logger.warning(message, *args)

    def said_over(self, topic: str) -> bool:
        """Forget a topic whose trouble has passed; True when there was one."""
        if topic in self._said:
            self._said.discard(topic)
            return True
        return False
