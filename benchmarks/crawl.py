"""Pages per CPU-second of a whole crawl, beside Scrapy on the same web: `python -m benchmarks.crawl --json`.

Runs are interleaved (ours, each peer, ours, …) and medians compared: on a shared machine only figures of one
invocation say anything about one another.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import runs, webs
from benchmarks.runs import Contender, Run

HOW_TO_RESOLVE = (
    'peers ran through the web as their proxy; for direct runs, as root: for i in $(seq 0 1999); do echo "127.0.0.1 '
    'h$i.test"; done >> /etc/hosts, with port 80 free'
)
NO_PEERS = "no peers: ../shared/bench is not here, so our own web was crawled, by us alone"


def main() -> int:
    """Runs the rounds and prints what they gave."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crawl", description=__doc__)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS", help="of the web, before each answer")
    parser.add_argument("--peers", default="scrapy,scrapy-tuned", help="of scrapy, scrapy-tuned, scrapy-redis; or none")
    parser.add_argument("--set", "-s", action="append", default=[], metavar="NAME=VALUE", help="a setting of our crawl")
    parser.add_argument("--json", action="store_true", help="print all runs as JSON instead of a table")
    parser.add_argument("--out", type=Path, help="also write the JSON there")
    args = parser.parse_args()
    report = measure(args)
    text = json.dumps(report, indent=2)
    if args.out:
        args.out.write_text(text + "\n", "utf-8")
    print(text if args.json else table(report))
    return 0


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All rounds on one web, as the report that is printed."""
    with webs.serve(args.latency) as web:
        direct = web.port == webs.HTTP_PORT and webs.hosts_resolve()
        contenders = _contenders(args, direct)
        results = []
        for number in range(args.rounds):
            for who, run in contenders.items():
                print(f"round {number + 1} of {args.rounds}: {who}", file=sys.stderr, flush=True)
                results.append(run(web, args.pages))
    notes = [NO_PEERS] if not webs.has_webfarm() else [HOW_TO_RESOLVE] if not direct and len(contenders) > 1 else []
    return {
        "command": " ".join(["python -m benchmarks.crawl", *sys.argv[1:]]),
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpu": _cpu(), "system": platform.platform(), "python": platform.python_version()},
        "web": web.kind,
        "notes": notes,
        **summary(results),
        "runs": [asdict(run) for run in results],
    }


def _contenders(args: argparse.Namespace, direct: bool) -> dict[str, Contender]:
    settings = dict(pair.split("=", 1) for pair in args.set)
    known: dict[str, Contender] = {
        "scrapy": partial(runs.scrapy, direct=direct, tuned=False),
        "scrapy-tuned": partial(runs.scrapy, direct=direct, tuned=True),
        "scrapy-redis": partial(runs.scrapy_redis, direct=direct),
    }
    wanted = [name for name in args.peers.split(",") if name not in ("", "none")]
    if unknown := set(wanted) - set(known):
        raise SystemExit(f"--peers: {', '.join(sorted(unknown))}: not one of {', '.join(known)}")
    chosen: dict[str, Contender] = {"longline": partial(runs.ours, settings=settings)}
    return chosen | ({name: known[name] for name in wanted} if webs.has_webfarm() else {})


def summary(results: Iterable[Run]) -> dict[str, Any]:
    """Medians of every figure by contender, and our pages per CPU-second over each peer's."""
    by_who: dict[str, list[dict[str, float]]] = {}
    for run in results:
        by_who.setdefault(run.who, []).append(run.figures())
    medians = {
        who: {name: round(median(one[name] for one in figures), 3) for name in figures[0]}
        for who, figures in by_who.items()
    }
    ours = medians["longline"]["pages_per_cpu_s"]
    ratios = {who: round(ours / one["pages_per_cpu_s"], 2) for who, one in medians.items() if who != "longline"}
    return {"medians": medians, "ratios": ratios}


_SHOWN = (
    "pages_per_cpu_s",
    "pages_per_s",
    "worker_cpu_ms_per_page",
    "redis_cpu_ms_per_page",
    "redis_commands_sent_per_page",
    "worker_rss_mb",
)


def table(report: dict[str, Any]) -> str:
    """The medians for people."""
    head = ("", "pages/CPU-s", "pages/s", "worker ms/page", "Redis ms/page", "commands/page", "RSS MB", "ours is")
    rows = [head]
    for who, one in report["medians"].items():
        ratio = report["ratios"].get(who)
        rows.append((who, *(f"{one[key]:.2f}" for key in _SHOWN), f"{ratio:.2f} ×" if ratio else ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, *report["notes"]])


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=webs.REPOSITORY, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _cpu() -> str:
    names = [line for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")]
    return f"{names[0].split(':')[1].strip()}, {len(names)} logical" if names else platform.processor()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
