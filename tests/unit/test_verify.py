"""`corpus verify` finds every kind of damage, and says nothing against a corpus that is right."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawler.errors import CorruptSegment
from crawler.storage import schema
from crawler.storage.manifests import Manifest, ObjectEntry
from crawler.storage.sinks import DirectorySink
from crawler.storage.verify import FAULTS_KEPT, Distinct, stats, verify

ROOT = Path(__file__).parents[2]
DAY = "2026-07-27"
NOW = 1_785_150_000.0


def document(number: int, **changes: Any) -> schema.Line:
    url = f"http://h{number % 3}.test/{number}"
    return schema.document(
        url=url, key=number, visit=0, crawl_id="c", worker="w-1", text="text" * (number % 4), fetched_at=NOW, added=NOW,
        **{"status": 200 if number % 5 else 404, **changes},
    )  # fmt: skip


def fetch(number: int) -> schema.Line:
    return schema.fetch_entry(url=f"http://a.test/{number}", key=number, logged_at=NOW, status=404, kind="not-found")


def store(sink: DirectorySink, kind: str, segment: str, lines: list[schema.Line]) -> ObjectEntry:
    """Put lines where a publication would, in two members, and describe them."""
    half = len(lines) // 2
    data = b"".join(gzip.compress(b"".join(map(schema.encode, some))) for some in (lines[:half], lines[half:]))
    digest = hashlib.sha256(data).hexdigest()
    key = f"{kind}/dt={DAY}/{segment}.{digest[:16]}.jsonl.gz"
    path = sink.root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return ObjectEntry(key, len(data), digest, len(lines), sum(1 for line in lines if line.get("text")))


def publish(sink: DirectorySink, segment: str, *entries: ObjectEntry) -> None:
    manifest = Manifest(segment, "c", "w-1", schema.timestamp(NOW), DAY, DAY, entries)
    sink.put_manifest(segment, manifest.text())


@pytest.fixture
def sink(tmp_path: Path) -> DirectorySink:
    """A corpus of two segments: documents 0 to 9 and 10 to 19, and three fetches."""
    sink = DirectorySink(tmp_path / "out")
    sink.probe()
    for number, segment in ((0, "c-w-1-000001"), (10, "c-w-1-000002")):
        documents = store(sink, "documents", segment, [document(n) for n in range(number, number + 10)])
        fetches = store(sink, "fetchlog", segment, [fetch(n) for n in range(3)])
        publish(sink, segment, documents, fetches)
    return sink


def first_part(sink: DirectorySink) -> Path:
    return sink.root / next(sink.keys("documents"))


def flip_a_byte(sink: DirectorySink) -> str:
    path = first_part(sink)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return "SHA-256"


def remove_a_part(sink: DirectorySink) -> str:
    first_part(sink).unlink()
    return "is missing"


def truncate_a_part(sink: DirectorySink) -> str:
    path = first_part(sink)
    path.write_bytes(path.read_bytes()[:-9])
    return "cannot be decompressed"


def append_garbage(sink: DirectorySink) -> str:
    path = first_part(sink)
    path.write_bytes(path.read_bytes() + b"x")
    return "its manifest says"


def add_a_part(sink: DirectorySink) -> str:
    store(sink, "documents", "c-w-1-000003", [document(99)])
    return "no manifest names it"


def repeat_a_document(sink: DirectorySink) -> str:
    again = store(sink, "documents", "c-w-1-000003", [document(5, title="another title")])
    publish(sink, "c-w-1-000003", again)
    return f"id {document(5)['id']}: stands 2 times"


def name_a_part_twice(sink: DirectorySink) -> str:
    entry = Manifest.parse(sink.read_manifest("c-w-1-000001")).objects[0]
    publish(sink, "c-w-1-000003", entry)
    return "more than one manifest"


def miscount_rows(sink: DirectorySink) -> str:
    entry = store(sink, "documents", "c-w-1-000003", [document(77), document(78)])
    publish(sink, "c-w-1-000003", ObjectEntry(entry.key, entry.bytes, entry.sha256, 3, entry.rows_with_text))
    return "has 2 rows"


def miscount_texts(sink: DirectorySink) -> str:
    entry = store(sink, "documents", "c-w-1-000003", [document(77), document(80)])
    publish(sink, "c-w-1-000003", ObjectEntry(entry.key, entry.bytes, entry.sha256, 2, 2))
    return "1 with text"


def break_the_schema(sink: DirectorySink) -> str:
    line = document(77)
    line["metadata"]["status"] = "200"
    publish(sink, "c-w-1-000003", store(sink, "documents", "c-w-1-000003", [document(76), line]))
    return "line 2: status"


def break_a_fetch_entry(sink: DirectorySink) -> str:
    publish(sink, "c-w-1-000003", store(sink, "fetchlog", "c-w-1-000003", [{**fetch(1), "ip": None}]))
    return "line 1: ip"


def spoil_a_manifest(sink: DirectorySink) -> str:
    sink.put_manifest("c-w-1-000001", "{")
    return "c-w-1-000001.json: manifest is not readable"


def age_a_manifest(sink: DirectorySink) -> str:
    body = json.loads(sink.read_manifest("c-w-1-000001"))
    sink.put_manifest("c-w-1-000001", json.dumps({**body, "schema_version": 0}))
    return "schema version 0"


def rename_a_manifest(sink: DirectorySink) -> str:
    manifests = sink.root / "manifests"
    (manifests / "c-w-1-000001.json").rename(manifests / "c-w-1-000009.json")
    return "is the manifest of c-w-1-000001"


DAMAGE = [
    flip_a_byte,
    remove_a_part,
    truncate_a_part,
    append_garbage,
    add_a_part,
    repeat_a_document,
    name_a_part_twice,
    miscount_rows,
    miscount_texts,
    break_the_schema,
    break_a_fetch_entry,
    spoil_a_manifest,
    age_a_manifest,
    rename_a_manifest,
]


def test_a_right_corpus_is_right(sink: DirectorySink) -> None:
    report = verify(sink)
    assert (report.ok, report.faults) == (True, [])
    assert (report.manifests, report.objects, report.documents, report.fetches) == (2, 4, 20, 6)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found(sink: DirectorySink, damage: Callable[[DirectorySink], str]) -> None:
    says = damage(sink)
    report = verify(sink)
    assert not report.ok
    assert any(says in fault for fault in report.faults), report.faults


def test_parts_that_are_staged_are_no_fault(sink: DirectorySink) -> None:
    path = sink.root.parent / "part"
    path.write_bytes(b"not decided yet")
    sink.put(f"documents/dt={DAY}/c-w-1-000003.0123456789abcdef.jsonl.gz", path)
    assert verify(sink).ok


def test_faults_are_all_counted_and_not_all_kept(sink: DirectorySink) -> None:
    bad = [{**document(100 + n), "added": ""} for n in range(FAULTS_KEPT + 5)]
    publish(sink, "c-w-1-000003", store(sink, "documents", "c-w-1-000003", bad))
    report = verify(sink)
    assert report.fault_count > len(report.faults) == FAULTS_KEPT


def test_stats_count_what_the_manifests_name(sink: DirectorySink) -> None:
    store(sink, "documents", "c-w-1-000003", [document(99)])
    found = stats(sink)
    assert (found.documents, found.distinct_urls, found.with_text) == (20, 20, 15)
    assert found.by_status == {"200": 16, "404": 4}
    assert (found.fetches, found.fetches_by_status, found.fetches_by_kind) == (6, {"404": 6}, {"not-found": 6})


def test_stats_refuse_a_damaged_corpus(sink: DirectorySink) -> None:
    truncate_a_part(sink)
    with pytest.raises(CorruptSegment, match="documents/"):
        stats(sink)


@pytest.mark.parametrize("limit", [16, 160, 1 << 20])
def test_distinct_counts_the_same_in_memory_and_in_files(limit: int) -> None:
    digests = [hashlib.md5(str(n % 70).encode()).digest() for n in range(100)]
    with Distinct(limit) as distinct:
        for digest in digests:
            distinct.add(digest)
        assert distinct.count() == 70
        assert dict(distinct.repeated()) == dict.fromkeys(digests[:30], 2)
        assert distinct.count() == 70


def corpus_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scrapy", "corpus", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_command_says_what_it_found_and_exits_accordingly(sink: DirectorySink) -> None:
    right = corpus_command("verify", str(sink.root), "--json")
    assert (right.returncode, json.loads(right.stdout)["documents"]) == (0, 20)
    counted = corpus_command("stats", str(sink.root), "--json")
    assert json.loads(counted.stdout)["by_status"] == {"200": 16, "404": 4}
    assert counted.returncode == 0
    says = flip_a_byte(sink)
    wrong = corpus_command("verify", str(sink.root))
    assert wrong.returncode == 1
    assert says in wrong.stdout


def test_the_command_says_when_there_is_no_corpus(tmp_path: Path) -> None:
    missing = corpus_command("stats", str(tmp_path / "nothing"), "--json")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert f"{tmp_path / 'nothing'} is no corpus" in missing.stderr
    assert corpus_command("verify").returncode == 2
