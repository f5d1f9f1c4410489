"""Reader of the robots.txt specification tests of google/robotstxt-spec-test (text protobuf)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TOKEN = re.compile(r'#[^\n]*|"(?:\\.|[^"\\])*"|[A-Za-z_]+|[\[\]{}:,]')


@dataclass(frozen=True)
class SpecCase:
    """One expectation on one robots.txt."""

    name: str
    body: bytes
    url: str
    agent: str
    allowed: bool


def read(path: Path) -> Iterator[SpecCase]:
    """Yield the expectations of one .textproto file in their order."""
    tokens = [token for token in _TOKEN.findall(path.read_text("utf-8")) if not token.startswith("#")]
    body, url, agent, number = b"", "", "", 0
    position = 0
    while position < len(tokens):
        field = tokens[position]
        if field in ("robotstxt", "testurl", "useragent", "expected_outcome") and tokens[position + 1] == ":":
            position += 2
            value = b""
            while tokens[position].startswith('"'):
                value += (
                    ast.literal_eval("b" + tokens[position]) if tokens[position].isascii() else _plain(tokens[position])
                )
                position += 1
            if field == "robotstxt":
                body = value
            elif field == "testurl":
                url = value.decode()
            elif field == "useragent":
                agent = value.decode()
            else:
                number += 1
                yield SpecCase(f"{path.stem}-{number}", body, url, agent, tokens[position] == "ALLOWED")
                position += 1
        else:
            position += 1


def _plain(token: str) -> bytes:
    return ast.literal_eval(token).encode()  # type: ignore[no-any-return]
