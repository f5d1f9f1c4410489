"""The web that `make crawl` serves on loopback, and that the tests crawl.

    prose.py      words and sentences, the same for the same key
    world.py      what every URL of a generated web answers, and the truth about it: what a crawl must find
    profiles.py   two such worlds: `demo` with everything that is awkward about the web, `plain` with nothing of it
    web.py        serves a world and logs every request with its start and end
    witness.py    reads that log: was the crawl polite, and did it use the rate that the delays allow
    run.py        `make crawl` without seeds: serves the demo world and crawls it

`python -m crawler.demo serve|crawl --help`
"""

from __future__ import annotations
