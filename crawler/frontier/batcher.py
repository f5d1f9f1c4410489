"""Joins a worker's calls: what is asked within one window goes to Redis as one script per kind and partition.

A lane has one call in flight; what comes meanwhile joins the next. Lanes of different kinds keep no order among
each other: who needs one answered before another waits for it. While the frontier cannot be reached calls are
repeated until `close`: links and outcomes are not lost while their worker lives (invariant 8).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from crawler.errors import FrontierUnavailable, LonglineError
from crawler.frontier import keys
from crawler.frontier.calls import CHUNK
from crawler.frontier.seen import SeenFilter
from crawler.frontier.states import State
from crawler.frontier.types import (
    Added,
    Answer,
    Burial,
    Candidate,
    Completion,
    Failure,
    Handback,
    Named,
    Redirect,
    Wire,
)

WINDOW: Final = 0.015
"""Seconds that a call waits for others to join."""

RESEND: Final = 10.0
"""Seconds of latest adds that are kept, to be sent again when the server was lost: it may have forgotten its last
second."""

FILTER: Final = 200_000
"""Keys that the local filter holds."""

PAUSE: Final = 0.5
"""Seconds between tries while the frontier cannot be reached."""

Item = TypeVar("Item")
Reply = TypeVar("Reply")


class Target(Protocol):
    """What a Batcher needs of Frontier or Model."""

    partitions: int
    epochs: dict[int, bytes]

    @property
    def losses(self) -> int: ...
    async def add(self, candidates: Sequence[Candidate], /) -> Sequence[Added]: ...
    async def fetched(self, ended: Sequence[tuple[Named, Wire]], /) -> Sequence[Answer]: ...
    async def complete(self, completions: Sequence[Completion], /) -> Sequence[Answer]: ...
    async def retry(self, failures: Sequence[Failure], /) -> Sequence[State | None]: ...
    async def release(self, handbacks: Sequence[Handback | Named], /) -> Sequence[Answer]: ...
    async def bury(self, burials: Sequence[Burial], /) -> Sequence[Answer]: ...


class _Lane(Generic[Item, Reply]):
    """Calls of one kind to one partition. ``tell(reply or error)`` is called once for each item put in."""

    def __init__(self, send: Callable[[Sequence[Item]], Awaitable[Sequence[Reply]]], batcher: Batcher) -> None:
        self._send = send
        self._batcher = batcher
        self._waiting: deque[tuple[Item, Callable[[Any], None]]] = deque()
        self.task: asyncio.Task[None] | None = None

    def put(self, item: Item, tell: Callable[[Reply | Exception], None]) -> None:
        self._waiting.append((item, tell))
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._batcher.window()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(CHUNK, len(self._waiting)))]
                await self._send_all(batch)
        finally:
            self.task = None

    async def _send_all(self, batch: Sequence[tuple[Item, Callable[[Any], None]]]) -> None:
        while True:
            try:
                replies = await self._send([item for item, _ in batch])
            except FrontierUnavailable as error:
                if await self._batcher.try_again():
                    continue
                return _tell_all(batch, [error] * len(batch))
            except LonglineError as error:
                if len(batch) == 1:
                    return _tell_all(batch, [error])
                for one in batch:  # only the item that is at fault shall fail
                    await self._send_all([one])
                return None
            except Exception as error:  # noqa: BLE001 (not swallowed: each caller is told, none waits for ever)
                return _tell_all(batch, [error] * len(batch))
            return _tell_all(batch, replies)


def _tell_all(batch: Sequence[tuple[Any, Callable[[Any], None]]], replies: Sequence[Any]) -> None:
    for (_, tell), reply in zip(batch, replies, strict=True):
        tell(reply)


class _Adding:
    """One call of `add`, whose candidates lie in several lanes."""

    def __init__(self, answers: list[Added], left: int) -> None:
        self.answers = answers
        self.left = left
        self.done: asyncio.Future[list[Added]] = asyncio.get_running_loop().create_future()

    def tell(self, at: int, reply: Added | Exception) -> None:
        if self.done.done():
            return
        if isinstance(reply, Exception):
            self.done.set_exception(reply)
            return
        self.answers[at] = reply
        self.left -= 1
        if not self.left:
            self.done.set_result(self.answers)


class Batcher:
    """The frontier as one worker uses it: single calls, sent in batches. Used and closed on one event loop."""

    def __init__(
        self,
        frontier: Target,
        *,
        window: float = WINDOW,
        filter_size: int = FILTER,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._frontier = frontier
        self._window = window
        self._sleep = sleep
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._seen = SeenFilter(filter_size)
        self._lost = frontier.losses
        self._epochs = dict(frontier.epochs)
        self._latest: deque[tuple[float, Candidate]] = deque()
        self._lanes: dict[tuple[str, int], _Lane[Any, Any]] = {}
        self._resending: asyncio.Task[int] | None = None
        self._closing = False

    # What a worker calls

    def known(self, key: int) -> bool:
        """Whether the frontier has answered for this key before, as far as is remembered here."""
        return key in self._seen

    async def add(self, candidates: Sequence[Candidate]) -> list[Added]:
        """`Frontier.add`; what the frontier has answered for before is SEEN without asking."""
        answers = [Added.SEEN] * len(candidates)
        asked = [i for i, c in enumerate(candidates) if c.key not in self._seen or c.key in c.chain]
        if not asked:
            return answers
        adding = _Adding(answers, len(asked))
        for i in asked:
            candidate = candidates[i]
            lane = self._lane("add", candidate.group, self._add)
            lane.put(candidate, lambda reply, i=i: adding.tell(i, reply))  # type: ignore[misc]
        return await adding.done

    async def fetched(self, lease: Named, wire: Wire) -> Answer:
        """`Frontier.fetched` for one lease."""
        return await self._one("fetched", lease.group, self._frontier.fetched, (lease, wire))

    async def complete(
        self, lease: Named, reason: str, wire: Wire | None = None, redirect: Redirect | None = None
    ) -> Answer:
        """`Frontier.complete` for one lease."""
        item = Completion(lease, reason, wire, redirect)
        return await self._one("complete", lease.group, self._frontier.complete, item)

    async def retry(self, lease: Named, kind: str, wire: Wire | None = None, not_before_ms: int = 0) -> State | None:
        """`Frontier.retry` for one lease."""
        return await self._one("retry", lease.group, self._frontier.retry, Failure(lease, kind, wire, not_before_ms))

    async def release(self, lease: Named, wire: Wire | None = None, not_before_ms: int = 0) -> Answer:
        """`Frontier.release` for one lease."""
        return await self._one("release", lease.group, self._frontier.release, Handback(lease, wire, not_before_ms))

    async def bury(self, lease: Named, reason: str, wire: Wire | None = None) -> Answer:
        """`Frontier.bury` for one lease."""
        return await self._one("bury", lease.group, self._frontier.bury, Burial(lease, reason, wire))

    async def recover(self) -> int:
        """If the server was lost since the last add, send the latest again now: there may be no further add to find
        out. Returns how many of these it had forgotten. Raises FrontierUnavailable."""
        if self._resending is not None:
            return await asyncio.shield(self._resending)
        if not self._moved():
            return 0
        self._seen.clear()
        try:
            return await self.resend()
        except FrontierUnavailable:
            self._lost = -1
            raise

    async def resend(self) -> int:
        """Add what was added in the RESEND seconds before the last answer once more, however long ago that was.
        Returns how many of these the server had forgotten."""
        latest = list({candidate.key: candidate for _, candidate in self._latest}.values())
        return sum(answer is not Added.SEEN for answer in await self._add(latest)) if latest else 0

    async def close(self) -> None:
        """Send what waits and return when it is answered; what cannot be reached now fails with
        FrontierUnavailable."""
        self._closing = True
        while tasks := [lane.task for lane in self._lanes.values() if lane.task] + [t for t in [self._resending] if t]:
            await asyncio.wait(tasks)

    # Lanes

    async def _one(self, kind: str, group: str, send: Callable[[Any], Awaitable[Sequence[Reply]]], item: Any) -> Reply:
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def tell(reply: Reply | Exception) -> None:
            if answer.done():
                return
            if isinstance(reply, Exception):
                answer.set_exception(reply)
            else:
                answer.set_result(reply)

        self._lane(kind, group, send).put(item, tell)
        return await answer

    def _lane(self, kind: str, group: str, send: Callable[[Any], Awaitable[Sequence[Any]]]) -> _Lane[Any, Any]:
        place = (kind, keys.partition_of(group, self._frontier.partitions))
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane(send, self)
        return lane

    async def window(self) -> None:
        """Wait for others to join; not at all when closing."""
        if not self._closing:
            await self._sleep(self._window)

    async def try_again(self) -> bool:
        """Pause after FrontierUnavailable; False when closing: the caller is told then."""
        if self._closing:
            return False
        await self._sleep(PAUSE)
        return True

    # What the frontier has answered for

    async def _add(self, candidates: Sequence[Candidate]) -> Sequence[Added]:
        answers = await self._frontier.add(candidates)
        moved = self._moved()
        if moved:
            self._seen.clear()
        self._seen.update(candidate.key for candidate in candidates)
        if moved and self._latest and self._resending is None:
            self._resending = asyncio.get_running_loop().create_task(self.resend())
            self._resending.add_done_callback(self._resent)
        now = self._clock()
        self._latest.extend(
            (now, candidate) for candidate, answer in zip(candidates, answers, strict=True) if answer is not Added.SEEN
        )
        if self._resending is None:
            self._forget_old()
        return answers

    def _moved(self) -> bool:
        """Whether the server was lost, or a partition was emptied, since this was last asked."""
        losses, epochs = self._frontier.losses, self._frontier.epochs
        moved = losses != self._lost or any(self._epochs.get(at, epoch) != epoch for at, epoch in epochs.items())
        self._lost = losses
        self._epochs.update(epochs)
        return moved

    def _resent(self, task: asyncio.Task[int]) -> None:
        self._resending = None
        if not task.cancelled() and task.exception() is not None:
            self._lost = -1  # the next add finds that it must be tried again

    def _forget_old(self) -> None:
        oldest = self._clock() - RESEND
        while self._latest and self._latest[0][0] < oldest:
            self._latest.popleft()
