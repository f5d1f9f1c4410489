"""Seeds: each line read, named when it is none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from crawler import seeds
from crawler.errors import BadSeeds


def written(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "seeds.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_lines_are_seeds_in_wire_form_with_their_numbers(tmp_path: Path) -> None:
    source = written(tmp_path, "# mine\nHTTP://A.test\n\n  http://b.test/x y \r\nhttp://ü.test/\thttp\n")
    read = [(seed.line, seed.url, seed.fault) for seed in seeds.read(source)]
    assert read == [
        (2, "http://a.test/", ""),
        (4, "", "'y' is no band"),
        (5, "", "'http' is no band"),
    ]


@pytest.mark.parametrize("line", ["http://a.test/ 2", "http://a.test/\t2", "http://a.test/   2  "])
def test_a_band_may_stand_behind_the_url(tmp_path: Path, line: str) -> None:
    (seed,) = seeds.read(written(tmp_path, line))
    assert (seed.url, seed.band) == ("http://a.test/", 2)


@pytest.mark.parametrize(
    "line", ["ftp://a.test/", "file:///etc/passwd", "a.test", "javascript:x", "http://", "http://a.test:99999/", "\x00"]
)
def test_what_is_no_url_of_ours_has_a_fault(tmp_path: Path, line: str) -> None:
    (seed,) = seeds.read(written(tmp_path, line))
    assert seed.url == ""
    assert seed.fault


def test_bom_and_broken_bytes_do_no_harm(tmp_path: Path) -> None:
    read = list(seeds.read(written(tmp_path, b"\xef\xbb\xbfhttp://a.test/\nhttp://b.test/\xff\n")))
    assert read[0].url == "http://a.test/"
    assert read[1].url.startswith("http://b.test/")


def test_a_url_is_a_source_of_its_own() -> None:
    (seed,) = seeds.read("https://A.test/x#y")
    assert seed.url == "https://a.test/x"
    seeds.check("http://a.test/")


def test_standard_input_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("http://a.test/\nhttp://b.test/\n"))
    seeds.check("-")
    assert [seed.url for seed in seeds.read("-")] == ["http://a.test/", "http://b.test/"]


@pytest.mark.parametrize("text", ["", "\n\n", "# only words\n", "mailto:a@b.c\n"])
def test_a_source_without_a_url_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadSeeds, match=r"seeds file '.*seeds\.txt' holds no URL"):
        seeds.check(written(tmp_path, text))


def test_a_source_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadSeeds, match=r"'.*/none' does not exist"):
        seeds.check(str(tmp_path / "none"))
    with pytest.raises(BadSeeds, match="cannot be read"):
        seeds.check(str(tmp_path))
