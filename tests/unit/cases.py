"""The shared cases: files with right answers beside the project. Tests that read them skip where they are not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2] / "../shared"
CASES = ROOT / "cases"
PAGES = ROOT / "web" / "html"


def parameters(values: Iterable[Any], width: int = 1) -> list[Any]:
    """Return what `parametrize` takes for `width` names: the values, or one that skips when there are none."""
    nothing = pytest.param(*[None] * width, marks=pytest.mark.skip(reason="../shared/cases is not here"))
    return list(values) or [nothing]


def own(name: str) -> list[Any]:
    """Return the cases of one of our own JSON files, with their ids."""
    if not CASES.is_dir():
        return parameters([])
    return [pytest.param(case, id=case["id"]) for case in json.loads((CASES / "own" / name).read_text("utf-8"))]


def lines(name: str) -> list[str]:
    """Return the lines of a text file that are neither empty nor a comment."""
    path = CASES / name
    if not path.is_file():
        return []
    stripped = (line.strip() for line in path.read_text("utf-8").splitlines())
    return [line for line in stripped if line and not line.startswith(("#", "//"))]
