"""Shows a crawl while it runs: a live view on a terminal, a line now and then elsewhere, a report at its end.

PROGRESS says which (auto, live, plain, off). It reads stats and the frontier's snapshot, and changes neither.
"""

from __future__ import annotations

import logging
import time
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.file_proxy import FileProxy
from rich.live import Live
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from twisted.internet.task import LoopingCall

from crawler.options import Options
from extensions.figures import Figures, Window, closing_report, live_view, plain_line, read

logger = logging.getLogger(__name__)

LIVE_INTERVAL_S = 0.5
LOCAL_INTERVAL_S = 10.0
FLEET_INTERVAL_S = 60.0


class View(Protocol):
    """One way to show figures."""

    interval: float  # seconds between two looks

    def show(self, now: Figures, window: Window, elapsed: float) -> None: ...

    def close(self) -> None: ...


class PlainView:
    """A line in the log every `interval` seconds."""

    def __init__(self, interval: float) -> None:
        self.interval = interval

    def show(self, now: Figures, window: Window, elapsed: float) -> None:
        """Logs the line."""
        logger.info(plain_line(now, window, elapsed))

    def close(self) -> None:
        """Nothing is open."""


class LiveView:
    """A panel at the bottom of the terminal; log lines that go to the terminal scroll above it."""

    interval = LIVE_INTERVAL_S

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()
        self._streams = _lead_logs_above(console)

    def show(self, now: Figures, window: Window, elapsed: float) -> None:
        """Draws the panel anew."""
        # An empty line last: behind a full one the terminal's echo of ^C would scroll the panel from under us.
        self._live.update(Group(live_view(now, window, elapsed, self._title), ""), refresh=True)

    def close(self) -> None:
        """Takes the panel away and gives the terminal back to the log."""
        for handler, stream in self._streams.items():
            handler.setStream(stream)
        self._live.stop()


def _lead_logs_above(console: Console) -> dict[logging.StreamHandler[TextIO], TextIO]:
    """Lets log handlers that write to a terminal write through `console`; gives their own streams, to be set again."""
    streams = {}
    for handler in logging.root.handlers:
        # A FileHandler is a StreamHandler too: what counts is that a terminal is at the other end.
        if isinstance(handler, logging.StreamHandler) and handler.stream is not None and handler.stream.isatty():
            streams[handler] = handler.stream
            handler.setStream(FileProxy(console, handler.stream))
    return streams


class Progress:
    """Scrapy extension; see the head of the module."""

    def __init__(self, crawler: Crawler, options: Options) -> None:
        self._crawler = crawler
        self._options = options
        self._window = Window()
        self._now = Figures(0.0)
        self._started = time.monotonic()
        self._view: View | None = None
        self._reason: str | None = None
        self._looks: AsyncioLoopingCall | LoopingCall | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Progress:
        """Raises NotConfigured when PROGRESS is off, BadSetting when a setting is wrong."""
        options = Options.from_settings(crawler.settings)
        if options.progress == "off":
            raise NotConfigured("PROGRESS is off")
        progress = cls(crawler, options)
        crawler.signals.connect(progress.spider_opened, signals.spider_opened)
        crawler.signals.connect(progress.spider_closed, signals.spider_closed)
        crawler.signals.connect(progress.engine_stopped, signals.engine_stopped)
        return progress

    def spider_opened(self) -> None:
        """Starts looking."""
        self._started = time.monotonic()
        self._view = self._make_view()
        self._looks = create_looping_call(self._look)
        self._looks.start(self._view.interval, now=False)

    def spider_closed(self, spider: Spider, reason: str) -> None:  # noqa: ARG002 -- the signal's names
        """Takes the last look, and clears the view for what Scrapy logs at its end."""
        if self._looks is not None and self._looks.running:
            self._looks.stop()
        self._reason = reason
        self._now = self._figures()
        if self._view is not None:
            self._view.close()
            self._view = None

    def engine_stopped(self) -> None:
        """Prints the report: only here nothing is logged behind it any more."""
        if self._reason is None:
            return  # it never began: the error that kept it from it is what there is to read
        elapsed = self._now.at - self._started
        report = closing_report(self._now, elapsed, self._reason, self._options.crawl_id, self._options.output)
        print(f"\n{report}", flush=True)  # noqa: T201 -- the command's result, not a log line

    def _make_view(self) -> View:
        console = Console(stderr=True)
        mode = self._options.progress
        if mode == "live" or (mode == "auto" and console.is_terminal and not console.is_dumb_terminal):
            return LiveView(console, f"{self._options.crawl_id} → {self._options.output}")
        return PlainView(FLEET_INTERVAL_S if self._options.redis_url else LOCAL_INTERVAL_S)

    def _look(self) -> None:
        self._now = self._figures()
        self._window.add(self._now)
        if self._view is not None:
            self._view.show(self._now, self._window, self._now.at - self._started)

    def _figures(self) -> Figures:
        # Any scheduler will do: one without snapshots leaves the frontier's part of the display out.
        snapshot = getattr(self._crawler.engine.scheduler, "snapshot", None) or self._now.frontier
        return read(time.monotonic(), self._crawler.stats.get_stats(), snapshot)
