"""The wheel and the egg hold all of the project, and what is in them works without the source tree."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]

# Run beside an unpacked archive, in a directory of its own: reads every Lua script the way the frontier does.
READ_SCRIPTS = """
import importlib.resources, pathlib, sys
import crawler
assert pathlib.Path(crawler.__file__).is_relative_to(sys.argv[1]), crawler.__file__
lua = importlib.resources.files("crawler.frontier") / "lua"
print(len([entry for entry in lua.iterdir() if entry.name.endswith(".lua") and entry.read_text(encoding="utf-8")]))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a clean clone has, so that no build leaves anything in the source tree."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("setup.py", "pyproject.toml", "scrapy.cfg"):
        shutil.copy(ROOT / name, copy)
    for package in ("crawler", "settings", "extensions"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module", params=["bdist_wheel", "bdist_egg"])
def archive(request: pytest.FixtureRequest, source: Path) -> Path:
    """What `setup.py` builds: the wheel, and the egg that scrapyd-deploy uploads."""
    out = source / "dist" / request.param
    command = [sys.executable, "-W", "ignore", "setup.py", "-q", request.param, "--dist-dir", str(out)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = out.iterdir()
    return built


def test_it_holds_every_module_script_and_type_marker(archive: Path, source: Path) -> None:
    wanted = {
        str(path.relative_to(source))
        for package in ("crawler", "settings", "extensions")
        for path in (source / package).rglob("*")
        if path.is_file()
    }
    assert "crawler/py.typed" in wanted
    assert wanted - set(zipfile.ZipFile(archive).namelist()) == set()


def test_it_holds_nothing_else(archive: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(archive).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} <= {"crawler", "settings", "extensions", "EGG-INFO"}


def test_its_scripts_load_without_the_source_tree(archive: Path, source: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(archive).extractall(tmp_path)
    answer = subprocess.run(
        [sys.executable, "-c", READ_SCRIPTS, str(tmp_path)], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert int(answer.stdout) == len(list((source / "crawler" / "frontier" / "lua").glob("*.lua"))) > 0


def test_the_egg_names_the_settings_that_scrapyd_uses(archive: Path) -> None:
    names = zipfile.ZipFile(archive).namelist()
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "settings = settings.production" in zipfile.ZipFile(archive).read(entry_points).decode()


def test_requirements_are_exact_and_within_the_bounds_that_setup_names() -> None:
    pinned = {}
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            (specifier,) = requirement.specifier
            assert specifier.operator == "==", line
            pinned[requirement.name.replace("_", "-")] = specifier.version
    for bound in bounds_of_setup():
        assert pinned[bound.name] in bound.specifier, f"{bound} does not allow the pinned {pinned[bound.name]}"
        assert any(part.operator == "<" for part in bound.specifier), f"{bound} has no upper bound"


def bounds_of_setup() -> list[Requirement]:
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    call = next(
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"
    )
    wanted = next(keyword.value for keyword in call.keywords if keyword.arg == "install_requires")
    return [Requirement(text) for text in ast.literal_eval(wanted)]
