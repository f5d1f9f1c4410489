"""The generated web as a child process, for tests that crawl it, and the truth about it in this process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crawler.demo.profiles import demo, plain
from crawler.demo.witness import Hit, read_log
from crawler.demo.world import World

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Web:
    """A web that is being served: its port, its log file, and the world that it plays back."""

    port: int
    log_path: Path
    world: World
    process: subprocess.Popen[str]

    @property
    def resolve(self) -> str:
        """The value of the setting RESOLVE that leads the web's hosts here."""
        return json.dumps({"*.test": f"127.0.0.1:{self.port}"})

    def write_seeds(self, path: Path) -> Path:
        """Writes the world's seeds, one a line."""
        path.write_text("".join(f"{url}\n" for url in self.world.seeds), "ascii")
        return path

    def hits(self) -> list[Hit]:
        """The requests so far; those of the last fifth of a second may be missing while the web runs."""
        return read_log(self.log_path)


@contextlib.contextmanager
def serve(
    log_path: Path,
    *,
    hosts: int = 60,
    pages: int = 8,
    seed: int = 7,
    is_plain: bool = True,
    delay_rules: bool = False,
    latency: float = 0.0,
) -> Iterator[Web]:
    """Serves a generated world while the block runs; the log is whole once the block has ended."""
    profile = plain if is_plain else demo
    world = profile(hosts, pages, seed, delay_rules=delay_rules, latency=latency)
    command = [sys.executable, "-m", "crawler.demo", "serve", "--log", str(log_path), "--latency", str(latency)]
    command += ["--hosts", str(hosts), "--pages", str(pages), "--seed", str(seed)]
    command += ["--plain"] * is_plain + ["--delay-rules"] * delay_rules
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield Web(ready["port"], log_path, world, process)
        finally:
            process.terminate()
            process.wait()
