"""`scrapy corpus verify DIR` and `scrapy corpus stats DIR`: is the corpus right, and what does it hold?

Exit codes: 0: right; 1: verify found faults, or an object cannot be read; 2: no corpus is there, or the command line
is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from crawler.errors import BadInput, CorruptSegment, SinkError
from crawler.storage import open_sink
from crawler.storage.sinks import Sink
from crawler.storage.verify import Report, Stats, stats, verify


class Command(ScrapyCommand):
    """Checks or counts a corpus, reading all of it once."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 - Scrapy's own declaration

    def syntax(self) -> str:
        """The arguments."""
        return "verify|stats [--json] DIR"

    def short_desc(self) -> str:
        """One line for `scrapy -h`."""
        return "Check or count the documents of a corpus"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Ours beside Scrapy's."""
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Do it, print what was found, set the exit code."""
        if len(args) != 2 or args[0] not in ("verify", "stats"):
            raise UsageError
        try:
            sink = open_sink(args[1])
            found = self._verify(sink) if args[0] == "verify" else stats(sink, _progress())
        except (BadInput, SinkError) as error:
            self._fail(str(error), 2)
            return
        except CorruptSegment as error:
            self._fail(str(error), 1)
            return
        if opts.json:
            print(json.dumps(asdict(found)))
        else:
            print(_report_text(found) if isinstance(found, Report) else _stats_text(found))

    def _verify(self, sink: Sink) -> Report:
        report = verify(sink, _progress())
        self.exitcode = 0 if report.ok else 1
        return report

    def _fail(self, message: str, code: int) -> None:
        print(f"longline: {message}", file=sys.stderr)
        self.exitcode = code


def _progress() -> Callable[[str], None] | None:
    """Show which object is being read, where somebody is looking."""
    if not sys.stderr.isatty():
        return None
    return lambda key: print(f"\r\x1b[K{key}\r", end="", file=sys.stderr, flush=True)


def _report_text(report: Report) -> str:
    lines = list(report.faults)
    if report.fault_count > len(report.faults):
        lines.append(f"... and {report.fault_count - len(report.faults)} more")
    verdict = "right" if report.ok else f"{report.fault_count} faults"
    lines.append(
        f"{report.documents} documents and {report.fetches} fetch-log lines in {report.objects} objects "
        f"of {report.manifests} manifests, {report.bytes} bytes: {verdict}"
    )
    return "\n".join(lines)


def _stats_text(found: Stats) -> str:
    statuses = ", ".join(f"{status}: {count}" for status, count in found.by_status.items())
    return (
        f"{found.documents} documents of {found.distinct_urls} URLs, {found.with_text} with text, "
        f"{found.bytes} bytes, {found.manifests} manifests\n"
        f"by status: {statuses or 'none'}\n{found.fetches} fetch-log lines"
    )
