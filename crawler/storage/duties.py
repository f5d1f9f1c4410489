"""Work that is done again and again in the background, with growing pauses while it cannot be done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from crawler.errors import FrontierUnavailable, LonglineError, SinkError, SpoolError

log = logging.getLogger(__name__)

RETRY_FIRST: Final = 0.5
RETRY_MOST: Final = 30.0
"""Seconds of the first and of the longest pause after a failure."""

PASSING: Final = (FrontierUnavailable, SinkError, SpoolError)
"""Failures that may be over the next time."""


class Duty:
    """Calls ``work`` every ``every`` seconds, or at once after `wake`, until `stop`.

    ``failure`` is what kept the last call from succeeding; it is said in the log when it begins, changes and ends,
    not at every try. An error that is not passing ends the duty and stays in ``failure``; `stop` raises it.
    """

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, None]], every: float) -> None:
        self.failure: Exception | None = None
        self._name = name
        self._work = work
        self._every = every
        self._pause = every
        self._awake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, with a first call at once."""
        self._awake.set()
        self._task = asyncio.create_task(self._run(), name=self._name)
        self._task.add_done_callback(self._ended)

    def wake(self) -> None:
        """Make the next call now; while the duty fails, its pause is kept."""
        if self.failure is None:
            self._awake.set()

    async def stop(self) -> None:
        """Let a call that is being made finish, and make no other."""
        self._stopping = True
        self._awake.set()
        if self._task:
            await self._task

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._awake.wait(), self._pause)
            if self._stopping:
                return
            self._awake.clear()
            try:
                await self._work()
            except PASSING as error:
                self._failed(error)
            else:
                self._succeeded()

    def _failed(self, error: LonglineError) -> None:
        if isinstance(error, FrontierUnavailable) and self.failure is None:
            log.warning("%s waits for the frontier: %s", self._name, error)
        elif str(error) != str(self.failure):
            log.error("%s fails, and is tried again: %s", self._name, error)
        self._pause = RETRY_FIRST if self.failure is None else min(2 * self._pause, RETRY_MOST)
        self.failure = error

    def _succeeded(self) -> None:
        if self.failure is not None:
            log.info("%s works again", self._name)
        self.failure, self._pause = None, self._every

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            log.critical("%s ended", self._name, exc_info=error)
            self.failure = error if isinstance(error, Exception) else None
