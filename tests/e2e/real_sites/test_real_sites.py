"""On real sites we find what `wget --recursive` finds under the same rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.real_sites.sites import missing, nginx, wget
from tests.support.crawl import crawl, documents

pytestmark = pytest.mark.long

CRAWL_DEADLINE_S = 600.0

# Pages that one of the two finds and the other does not, each with its reason.
ONLY_WGET = {
    "http://django.test/search.html": "named by form actions and link rel=search alone; we submit no forms",
}
ONLY_OURS: dict[str, str] = {}


def test_the_pages_fetched_are_those_that_wget_finds(tmp_path: Path) -> None:
    if absent := missing():
        pytest.skip(f"needs nginx, wget and Debian's documentation; apt install {' '.join(absent)}")
    for folder in ("nginx", "wget", "crawl"):
        (tmp_path / folder).mkdir()
    with nginx(tmp_path / "nginx") as server:
        theirs = wget(server, tmp_path / "wget")
        server.forget()
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("".join(f"{url}\n" for url in server.seeds))
        crawl(
            tmp_path / "crawl",
            seeds,
            CRAWL_DEADLINE_S,
            RESOLVE=json.dumps({"*": f"127.0.0.1:{server.port}"}),  # links to the world outside end at nginx, in a 404
            OFFLINE_AFTER=1,  # or, where they are https, in a failed handshake
            RETRY_DELAYS="0.1",
            DOWNLOAD_DELAY=0,
        )
        asked_for = server.html_answered()
    rows = [row for row in documents(tmp_path / "crawl" / "output") if row["metadata"]["status"] == 200]
    ours = [row["url"] for row in rows if row["metadata"]["content_type"].startswith("text/html")]
    assert len(theirs) > 2000  # the sites are whole
    assert set(ours) - theirs == set(ONLY_OURS)
    assert theirs - set(ours) == set(ONLY_WGET)
    assert len(ours) == len(set(ours))
    assert set(ours) == asked_for  # what was fetched is in the corpus, and nothing else is
