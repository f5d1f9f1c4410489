"""docs/redis-schema.md says what is there: the diagram is the table's, and it names every key of the scripts."""

from __future__ import annotations

import re
from pathlib import Path

from crawler.frontier.scripts import scripts, source
from crawler.frontier.states import State, diagram

DOC = (Path(__file__).parents[2] / "docs" / "redis-schema.md").read_text(encoding="utf-8")
KEYS = re.findall(r"^\| `([^`]+)` \| (?:hash|set|list|sorted set|stream) \|", DOC, re.MULTILINE)


def test_the_diagram_is_the_tables() -> None:
    [shown] = re.findall(r"```mermaid\n(.*?)\n```", DOC, re.DOTALL)
    assert shown == diagram()


def test_every_key_of_the_scripts_is_described_and_no_other() -> None:
    declared = {key for script in scripts().values() for key in script.keys}
    for name in scripts():
        for included in ("", *re.findall(r"^-- @include (\w+)$", source(name), re.MULTILINE)):
            text = source(f"include/{included}" if included else name)
            declared |= {key for line in re.findall(r"^-- ALSO +(.+)$", text, re.MULTILINE) for key in line.split()}
    assert set(KEYS) == declared | {"hosts"}, "`hosts` is read and written by plain commands"


def test_every_state_has_its_place() -> None:
    for state in State:
        if state is not State.UNKNOWN:
            assert re.search(rf"^\| {state} \| ", DOC, re.MULTILINE)
