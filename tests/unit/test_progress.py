"""The progress display: what is said for which figures, and that the extension only reads."""

from __future__ import annotations

import gzip
import logging
import re
import subprocess
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from scrapy import Spider
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from extensions.figures import Figures, Window, closing_report, duration, live_view, plain_line, read, reading_lines
from extensions.progress import LiveView, PlainView, Progress

STATS = {
    "fetch/count": 1280,
    "fetch/status/200": 1050,
    "fetch/status/301": 80,
    "fetch/status/404": 100,
    "fetch/kind/timeout": 12,
    "fetch/kind/dns": 8,
    "fetch/kind/robots": 72,
    "fetch/kind/not-found": 100,
    "robots/status/200": 50,
    "robots/status/404": 20,
    "robots/kind/timeout": 10,
    "corpus/documents": 990,
    "log_count/INFO": 17,
}
SNAPSHOT = {
    "added": 2000, "queued": 700, "delayed": 4, "leased": 6, "held": 2, "sealed": 88, "done": 1198, "dead": 2,
    "groups": 60, "due": 11,
}  # fmt: skip


def crawl(at: float, fetched: int, waiting: int) -> Figures:
    return Figures(at, fetched=fetched, frontier={"queued": waiting})


def test_figures_are_read_from_stats_and_snapshot() -> None:
    now = read(5.0, STATS, SNAPSHOT)
    assert now.fetched == 1200  # robots.txt is no page
    assert now.success == pytest.approx(0.9)
    assert now.waiting == 710
    assert now.errors == {"timeout": 12, "dns": 8}
    assert now.answers == {"robots": 72, "not-found": 100}  # answers, not failures
    assert now.documents == 990


def test_nothing_fetched_has_no_success_and_divides_by_nothing() -> None:
    now = read(0.0, {}, None)
    assert now.success is None
    assert now.waiting is None
    assert plain_line(now, Window(), 0.0) == "0 s: 0 pages, 0.0 pages/s now"


def test_the_plain_line_says_it_all_in_one_line() -> None:
    window = Window()
    window.add(crawl(0.0, 1000, 900))
    now = read(10.0, STATS, SNAPSHOT)
    window.add(now)
    assert plain_line(now, window, 75.0) == (
        "1 min 15 s: 1,200 pages (90% answered well), 20.0 pages/s now; "
        "queued 700, delayed 4, leased 6, held 2, sealed 88, done 1,198, dead 2; 60 groups, 11 due; "
        "errors: timeout 12, dns 8; about 37 s left"
    )


def test_the_rate_is_that_of_the_window_not_of_the_whole_crawl() -> None:
    window = Window(span=10.0)
    for second in range(100):
        window.add(crawl(second, second if second < 80 else 80 + (second - 80) * 50, 10))
    assert window.rate == pytest.approx(50.0)


def test_time_left_is_known_only_while_the_frontier_drains() -> None:
    growing, draining = Window(), Window()
    growing.add(crawl(0.0, 0, 100))
    growing.add(crawl(5.0, 50, 300))
    draining.add(crawl(0.0, 0, 300))
    draining.add(crawl(5.0, 50, 200))
    assert growing.time_left is None
    assert draining.time_left == pytest.approx(10.0)
    draining.add(crawl(6.0, 250, 5))
    assert draining.time_left is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.9, "59 s"), (185, "3 min 05 s"), (7640, "2 h 07 min"), (274_000, "3 d 04 h")],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_many_kinds_of_errors_are_summed_up() -> None:
    stats = {f"fetch/kind/k{n}": n for n in range(1, 10)}
    line = plain_line(read(1.0, stats, None), Window(), 1.0)
    assert line.endswith("errors: k9 9, k8 8, k7 7, k6 6, k5 5, k4 4, others 6")


def test_the_live_view_shows_every_state() -> None:
    console = Console(width=100, file=StringIO())
    console.print(live_view(read(10.0, STATS, SNAPSHOT), Window(), 61.0, "demo → ./output"))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for word in ("demo → ./output", "1,200 pages", "timeout 12", "queued", "1,198", "1 min 01 s", "60 groups, 11 due"):
        assert word in shown


def write_corpus(output: Path) -> None:
    part = output / "documents" / "dt=2030-01-01" / "demo-w-1-0.jsonl.gz"
    part.parent.mkdir(parents=True)
    part.write_bytes(gzip.compress(b'{"id":"1"}\n{"id":"2"}\n'))


def test_the_line_that_reads_the_corpus_works_in_a_shell(tmp_path: Path) -> None:
    output = tmp_path / "it's my output"
    assert reading_lines(str(output), "demo") == []
    write_corpus(output)
    command = reading_lines(str(output), "demo")[0].removeprefix("read it:")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == '{"id":"1"}\n'


def test_the_closing_report(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    now = read(10.0, STATS, SNAPSHOT)
    finished = closing_report(now, 61.0, "finished", "demo", str(tmp_path))
    assert finished.startswith("Crawl 'demo' is finished.\n  fetched    1,200 pages (90% answered well) in 1 min 01 s")
    assert "documents  990\n" in finished
    assert "others     not-found 100, robots 72\n  errors     timeout 12, dns 8" in finished
    assert "scrapy dlq list" in finished
    assert "duckdb" in finished
    assert "the same command goes on" in closing_report(now, 61.0, "shutdown", "demo", str(tmp_path))
    assert "s3://bucket/documents" in closing_report(now, 1.0, "finished", "demo", "s3://bucket")


@pytest.mark.parametrize(("added", "said"), [(0, "has no URLs yet: .*-a seeds="), (5, "is finished: nothing was left")])
def test_a_run_that_fetched_nothing_says_why(added: int, said: str, tmp_path: Path) -> None:
    report = closing_report(Figures(1.0, frontier={"added": added}), 1.0, "finished", "demo", str(tmp_path))
    assert re.match(f"Crawl 'demo' {said}", report)
    assert ("another" in report) == bool(added)


@pytest.mark.parametrize("output", ["out", "it's", '$HOME "quoted"!'])
def test_the_duckdb_line_is_one_word_to_the_shell(output: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / output)
    line = reading_lines(str(tmp_path / output), "demo")[1].removeprefix("with DuckDB: duckdb -c ")
    done = subprocess.run(["sh", "-c", f"printf %s {line}"], capture_output=True, text=True, check=True)
    files = str(tmp_path / output / "documents/*/demo-*.jsonl.gz").replace("'", "''")
    assert done.stdout == f"SELECT url, metadata.title FROM '{files}' LIMIT 10"


# --- the extension ----------------------------------------------------------------------------------------------------


def make(**settings: object) -> Progress:
    crawler = get_crawler(Spider, {"USER_AGENT": "test (+http://h0.test/)", **settings})
    return Progress.from_crawler(crawler)


def test_off_is_off() -> None:
    with pytest.raises(NotConfigured):
        make(PROGRESS="off")


def test_where_there_is_no_terminal_a_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    progress = make()
    view = progress._make_view()
    assert isinstance(view, PlainView)
    with caplog.at_level(logging.INFO):
        view.show(read(10.0, STATS, SNAPSHOT), Window(), 61.0)
    assert "1,200 pages" in caplog.text
    assert "\n" not in caplog.records[0].getMessage()


def test_logs_to_the_terminal_go_above_the_live_view_and_back_to_it() -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    handler: logging.StreamHandler[Terminal] = logging.StreamHandler(terminal)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logging.root.addHandler(handler)
    try:
        view = LiveView(Console(file=terminal, force_terminal=True, width=80), "demo")
        view.show(read(10.0, STATS, SNAPSHOT), Window(), 61.0)
        logging.getLogger("somebody").warning("a line of the log")
        view.close()
        assert handler.stream is terminal
        shown = terminal.getvalue()
        assert "a line of the log" in shown
        assert re.search(r"╯\s*\n", shown), "the cursor rests behind the panel's last full line"
        assert shown.index("1,200 pages") < shown.index("a line of the log") < shown.rindex("1,200 pages")
    finally:
        logging.root.removeHandler(handler)


def test_the_last_snapshot_is_kept_and_the_report_comes_last(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    progress = make(CRAWL_ID="mine", OUTPUT=str(tmp_path))
    crawler = progress._crawler
    scheduler = SimpleNamespace(snapshot=None)
    crawler.engine = SimpleNamespace(scheduler=scheduler)  # type: ignore[assignment]
    assert crawler.stats is not None
    crawler.stats.set_stats(dict(STATS))
    progress._look()
    scheduler.snapshot = SNAPSHOT
    progress._look()
    scheduler.snapshot = None
    progress.spider_closed(crawler.spider, "finished")  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""
    progress.engine_stopped()
    report = capsys.readouterr().out
    assert "Crawl 'mine' is finished." in report
    assert "1,200 pages" in report
    assert re.search(r"2 URLs: \S*scrapy dlq list", report)
    assert crawler.stats.get_stats() == STATS
