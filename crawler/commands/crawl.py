"""`scrapy crawl`, with what can be known to be wrong said before anything starts, and an exit code that tells how it
ended.

0: finished, or stopped as asked; 1: the crawl could not start or go on; 2: the command line or settings are wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings, default_settings

from crawler import seeds
from crawler.errors import BadInput, BadSetting
from crawler.identity import contact
from crawler.options import Options
from crawler.worker import worker_of
from crawler.worker.candidates import Candidates

FAILURES = frozenset({"start_failed", "storage_failed", "worker_failed", "bad_seeds", "start_error"})
"""Reasons of closing that are a failure of this worker."""


class Command(ScrapyCrawl):
    """Scrapy's own command between two checks."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Check, crawl, set the exit code."""
        if len(args) != 1:
            raise UsageError
        process: Any = self.crawler_process
        try:
            crawler = self._checked(process, args[0], opts.spargs)
        except BadInput as error:
            print(f"longline: {error}", file=sys.stderr)
            self.exitcode = 2
            return
        for doubt in _misspelt(crawler.settings):
            print(f"longline: {doubt}", file=sys.stderr)
        process.crawl(crawler, **opts.spargs)
        process.start()
        reason = crawler.stats.get_value("finish_reason")
        if process.bootstrap_failed or reason in FAILURES or reason is None or worker_of(crawler).failed:
            self.exitcode = 1

    def _checked(self, process: Any, spider: str, arguments: Mapping[str, str]) -> Crawler:
        """A crawler whose spider, settings and seeds make sense. Raises BadInput."""
        known = process.spider_loader.list()
        if spider not in known:
            raise BadInput(f"no spider is called {spider!r}; there are: {', '.join(known)}")
        crawler: Crawler = process.create_crawler(spider)
        options = Options.from_settings(crawler.settings)
        Candidates(options)
        source = arguments.get("seeds") or options.seeds
        if source:
            seeds.check(source)
            _identify(crawler, options, source)
        return crawler


def _identify(crawler: Crawler, options: Options, source: str) -> None:
    """Ask for a contact when seeds lead away from this machine and USER_AGENT names none. Raises BadSetting."""
    if contact(options.user_agent) or source == "-" or not _leaves_loopback(options, source):
        return
    why = "USER_AGENT names no contact: whoever runs a site must be able to reach you"
    if not sys.stdin.isatty():
        raise BadSetting(f"{why}; set it, for example -s USER_AGENT='mybot/1.0 (+https://example.org/bot)'")
    print(f"longline: {why}.")
    answer = input("A URL or an e-mail address to put into USER_AGENT: ").strip()
    if not contact(answer):
        raise BadSetting(f"{answer!r} is neither a URL nor an e-mail address")
    crawler.settings.set("USER_AGENT", f"{options.user_agent.split(' ')[0]} (+{answer})", priority="cmdline")


def _leaves_loopback(options: Options, source: str) -> bool:
    from crawler.download.resolve import ResolveTable, leaves_loopback  # aiohttp is not needed before this

    table = ResolveTable(options.resolve)
    return any(seed.url and leaves_loopback(seed.url, table) for seed in seeds.read(source))


def _misspelt(settings: BaseSettings) -> Iterator[str]:
    """A line for each setting that neither we nor Scrapy know, and whose name is nearly one that we do."""
    known = {declared.name.upper() for declared in fields(Options)} | set(dir(default_settings))
    for name in settings:
        near = [] if name in known else get_close_matches(name, known, 1, 0.85)
        yield from (f"{name} is not a setting of Longline or Scrapy; is {meant} meant?" for meant in near)
