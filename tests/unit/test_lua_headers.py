"""A script's header is its contract: it names the keys and arguments that the script really uses, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crawler.frontier import scripts as package
from crawler.frontier.policy import KINDS, REPLAYED, band_of_turn
from crawler.frontier.scripts import assemble, scripts, source

LUA = Path(package.__file__).parent / "lua"
INCLUDES = [f"include/{path.stem}" for path in sorted((LUA / "include").glob("*.lua"))]
EVERY = sorted(scripts()) + INCLUDES
PARTS = ("KEYS", "ALSO", "ARGV", "Returns", "Cost")


def header(name: str) -> list[str]:
    """The comment lines that a file begins with, without the dashes."""
    lines = []
    for line in source(name).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:])
    return lines


def body(name: str) -> str:
    return "\n".join(line.partition("--")[0] for line in source(name).splitlines())


def included(name: str) -> list[str]:
    return [f"include/{found}" for found in re.findall(r"^-- @include (\w+)$", source(name), re.MULTILINE)]


def declared_keys(name: str, part: str) -> set[str]:
    return {key for line in header(name) if line.startswith(f" {part} ") for key in line.split()[1:]}


def declared_arguments(name: str) -> tuple[set[int], int | None]:
    """Single positions, and from which one on there is a list."""
    text = "\n".join(header(name))
    singles = {int(number) for number in re.findall(r"^ (?:ARGV| {4}) +(\d+) ", text, re.MULTILINE)}
    lists = [int(number) for number in re.findall(r"^ (?:ARGV| {4}) +(\d+)\.\. ", text, re.MULTILINE)]
    return singles, lists[0] if lists else None


@pytest.mark.parametrize("name", EVERY)
def test_purpose_first(name: str) -> None:
    first = header(name)[0]
    assert first[1].isupper(), "a sentence that says what it is for"


@pytest.mark.parametrize("name", sorted(scripts()))
def test_a_script_says_what_it_returns_and_costs(name: str) -> None:
    text = "\n".join(header(name))
    assert re.search(r"^ Returns ", text, re.MULTILINE)
    assert re.search(r"^ Cost ", text, re.MULTILINE)


@pytest.mark.parametrize("name", EVERY)
def test_keys_are_those_that_are_used(name: str) -> None:
    used = set(re.findall(r"\bK_(\w+)", body(name)))
    declared = declared_keys(name, "KEYS")
    inherited = {key for other in included(name) for key in declared_keys(other, "KEYS")}
    if name in INCLUDES:
        inherited |= set() if name == "include/base" else {"n", "meta"}
    assert used <= declared | inherited, "a key that no header declares"
    assert declared <= used, "a key that is declared and not used"


@pytest.mark.parametrize("name", EVERY)
def test_composed_keys_are_those_that_are_used(name: str) -> None:
    used = set(re.findall(r"TAG \.\. '(\w+):", body(name)))
    declared = {key.partition(":")[0] for key in declared_keys(name, "ALSO")}
    inherited = {key.partition(":")[0] for other in included(name) for key in declared_keys(other, "ALSO")}
    assert used <= declared | inherited
    assert declared <= used


@pytest.mark.parametrize("name", sorted(scripts()))
def test_arguments_are_those_that_are_used(name: str) -> None:
    singles, rest = declared_arguments(name)
    everything = [name, *included(name)]
    used = {int(number) for part in everything for number in re.findall(r"ARGV\[(\d+)\]", body(part))}
    if rest is not None:
        assert re.search(r"ARGV\[[a-z]|unpack\(ARGV|#ARGV|read_items\(", body(name)), "a list that is never read"
        used = {number for number in used if number < rest}
    assert used == singles
    assert singles == set(range(1, len(singles) + 1)), "positions without a gap"
    assert rest in (None, len(singles) + 1)


@pytest.mark.parametrize("name", INCLUDES)
def test_an_includes_arguments_are_where_its_scripts_say(name: str) -> None:
    singles, _ = declared_arguments(name)
    for script in scripts():
        if name in included(script):
            assert singles <= declared_arguments(script)[0], script


@pytest.mark.parametrize("name", sorted(scripts()))
def test_includes_come_in_an_order_that_works(name: str) -> None:
    needs = {"include/groups": ["include/base"], "include/queues": ["include/base", "include/groups"]}
    needs["include/items"] = needs["include/queues"]
    found = included(name)
    assert found[0] == "include/base"
    for at, other in enumerate(found):
        assert all(needed in found[:at] for needed in needs.get(other, []))


@pytest.mark.invariant(10)
@pytest.mark.parametrize("name", sorted(scripts()))
def test_no_script_asks_what_differs_between_servers(name: str) -> None:
    """Nor names a key of its own making without the partition's tag."""
    text = assemble(name).text
    assert not re.search(r"'(KEYS|SCAN|SORT|RANDOMKEY|SELECT|FLUSH\w*|EVAL\w*)'", text)
    assert not re.search(r"redis(_call|\.call)\('\w+', '", text)


def test_time_has_one_source() -> None:
    """It is base that reads it: the server's, the partition's latest, or the caller's."""
    assert [name for name in EVERY if "'TIME'" in body(name)] == ["include/base"]


def test_the_codes_lua_counts_are_the_policys() -> None:
    text = source("include/failures")
    assert f"EXPIRED, REPLAYED = {KINDS['expired'].code}, {REPLAYED}" in text


def test_the_ruler_in_lua_is_the_policys() -> None:
    """lease.lua finds a turn's band by halving; the policy by the lowest bit."""

    def halved(turn: int) -> int | None:
        turn %= 16
        if turn == 0:
            return None
        band = 0
        while turn % 2 == 0:
            turn, band = turn // 2, band + 1
        return min(band, 3)

    assert [halved(turn) for turn in range(64)] == [band_of_turn(turn, 4) for turn in range(64)]
