"""The Lua scripts: read from the package, put together from their includes, and called by their SHA-1.

The header of a .lua file is its contract and is read here: ``-- @include name`` puts lua/include/name.lua before
the body, and every name after ``-- KEYS`` is declared to Redis as a key of the partition, in that order, and is
there in the script as ``K_<name>``. ``TAG`` is what all keys of the partition begin with; keys named after ``--
ALSO`` are composed from it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r"^-- @include (\w+)$", re.MULTILINE)
_KEYS = re.compile(r"^-- KEYS +(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One transition. ``keys`` are names without the tag; ``text`` is what Redis is given."""

    name: str
    keys: tuple[str, ...]
    text: str
    sha: str


def source(name: str) -> str:
    """The text of lua/<name>.lua."""
    return files("crawler.frontier").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


def _parts(name: str) -> Iterator[str]:
    body = source(name)
    for included in _INCLUDE.findall(body):
        yield source(f"include/{included}")
    yield body


def assemble(name: str) -> Script:
    """One script with its includes, in the order in which its header names them."""
    parts = list(_parts(name))
    keys = tuple(dict.fromkeys(key for part in parts for line in _KEYS.findall(part) for key in line.split()))
    names = ", ".join(f"K_{key}" for key in keys)
    values = ", ".join(f"KEYS[{i}]" for i in range(1, len(keys) + 1))
    prelude = f"local {names} = {values}\nlocal TAG = string.sub(KEYS[1], 1, -{1 + len(keys[0])})\n"
    text = prelude + "\n".join(_without_comments(part) for part in parts)
    return Script(name, keys, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


@cache
def scripts() -> Mapping[str, Script]:
    """Every script by its name."""
    names = (entry.name for entry in files("crawler.frontier").joinpath("lua").iterdir())
    return {name: assemble(name) for name in sorted(n.removesuffix(".lua") for n in names if n.endswith(".lua"))}
