"""Workers without one rule, or that die at a chosen point: `python -m tests.support.mutants NAME,NAME crawl ...`.

The product has no switch for any of this. Each patch replaces one function, or one line of one script, in the worker's
process before Scrapy starts; a patch that does not find what it replaces fails, and the worker with it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from scrapy.cmdline import execute

from crawler.frontier import Answer, Frontier, scripts
from crawler.storage import sealing
from crawler.worker.outcomes import Outcomes


def no_delay() -> None:
    """A group is leased whenever its turn is free, whether or not its delay has passed."""
    _replace_in_script("lease", "'due:' .. band, '-inf', now,", "'due:' .. band, '-inf', '+inf',")


def seal_without_fence() -> None:
    """A token that holds its URL no longer seals all the same."""
    _replace_in_script("seal", "answers[i] = 'S'", "answers[i] = 'A' sealed[#sealed + 1] = item.token")


def stale_rows_kept() -> None:
    """A row stays in its segment whatever seal answers. The count before the decision still says so."""
    sealing.is_struck = lambda answer: False


def stale_rows_published() -> None:
    """The provisional rule is gone in both its forms: nothing is struck, nothing is counted before the decision."""
    stale_rows_kept()

    async def total(_self: sealing.Sealer, segment: sealing.Segment) -> int:
        return segment.kept

    sealing.Sealer.total = total  # type: ignore[method-assign]


def links_after_seal() -> None:
    """A page's row is sealed without waiting for its links, which are sent when it is."""
    waiting: dict[bytes, Sequence[Any]] = {}
    settled = Outcomes.row_settled

    def offer(self: Outcomes, visit: Any, candidates: Sequence[Any]) -> None:
        waiting[visit.lease.token] = candidates

    def row_settled(self: Outcomes, token: bytes, answer: Answer) -> None:
        settled(self, token, answer)
        links = waiting.pop(token, ())
        self.later(lambda: self.batcher.add(links))

    Outcomes.offer = offer  # type: ignore[method-assign]
    Outcomes.row_settled = row_settled  # type: ignore[method-assign]


def die_after_first_seal() -> None:
    """The worker dies by kill -9 when the frontier has sealed its first rows, before it learns of it."""
    seal = Frontier.seal

    async def seal_and_die(self: Frontier, worker: str, rows: Sequence[Any], *args: Any, **arguments: Any) -> Any:
        sealed = await seal(self, worker, rows, *args, **arguments)
        if Answer.APPLIED in sealed.answers:
            os.kill(os.getpid(), signal.SIGKILL)
        return sealed

    Frontier.seal = seal_and_die  # type: ignore[method-assign]


PATCHES: dict[str, Callable[[], None]] = {
    patch.__name__: patch
    for patch in (
        no_delay,
        seal_without_fence,
        stale_rows_kept,
        stale_rows_published,
        links_after_seal,
        die_after_first_seal,
    )
}


def _replace_in_script(name: str, old: str, new: str) -> None:
    original = scripts.source

    def source(asked: str) -> str:
        text = original(asked)
        if asked == name:
            assert text.count(old) == 1, f"{name}.lua has {text.count(old)} places to patch"
            return text.replace(old, new)
        return text

    scripts.source = source


if __name__ == "__main__":
    for named in sys.argv.pop(1).split(","):
        PATCHES[named]()
    sys.argv[0] = "scrapy"
    execute()
