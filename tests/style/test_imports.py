"""Which room may import which other room and which third-party package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.style.repository import ROOMS, ROOT, all_modules, relative

#: The third-party packages of each room, by the name they are imported under.
THIRD_PARTY: dict[str, frozenset[str]] = {
    "survey": frozenset({"numba", "numpy", "scipy", "torch"}),
    "catalog": frozenset(
        {
            "PIL",
            "alembic",
            "duckdb",
            "filelock",
            "huggingface_hub",
            "numpy",
            "pyarrow",
            "requests",
            "safetensors",
            "scipy",
            "sklearn",
            "sqlalchemy",
            "timm",
            "torch",
            "torchvision",
        }
    ),
    "analysis": frozenset(
        {
            "altair",
            "jinja2",
            "numba",
            "numpy",
            "pandas",
            "pyarrow",
            "scipy",
            "sklearn",
            "torch",
            "tslearn",
            "vl_convert",
        }
    ),
    "jobs": frozenset(
        {
            "click",
            "cronsim",
            "grpc",
            "numpy",
            "pyarrow",
            "pydantic",
            "ray",
            "rich",
            "scipy",
            "torch",
            "typer",
        }
    ),
}

#: Packages that exactly one room may import.
ONLY_IN: dict[str, str] = {
    **dict.fromkeys(["ray", "grpc", "typer", "rich", "pydantic"], "jobs"),
    **dict.fromkeys(
        ["sqlalchemy", "alembic", "duckdb", "timm", "torchvision", "filelock", "safetensors"],
        "catalog",
    ),
}


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and top-level package of every import, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level or (node.module or "").split(".")[0]


def allowed(room: str, package: str) -> bool:
    if package in ROOMS:
        return ROOMS.index(package) >= ROOMS.index(room)
    return package in sys.stdlib_module_names or package in THIRD_PARTY[room]


@pytest.mark.parametrize("path", all_modules(), ids=relative)
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    wrong = [
        f"{relative(path)}:{line} imports {package}"
        for line, package in imported(ast.parse(path.read_text(encoding="utf-8")))
        if not allowed(room, package)
    ]
    assert not wrong, f"{wrong}; {room} may import {sorted(THIRD_PARTY[room])} and rooms below it"


def test_an_exclusive_package_is_allowed_in_its_room_alone() -> None:
    for package, owner in ONLY_IN.items():
        assert [room for room in ROOMS if package in THIRD_PARTY[room]] == [owner]


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("survey", "import duckdb"),
        ("survey", "from catalog.store.reader import reading"),
        ("survey", "def f():\n    import ray"),
        ("catalog", "import jobs.run"),
        ("catalog", "from rich.table import Table"),
        ("analysis", "import sqlalchemy as sa"),
        ("jobs", "from torchvision import models"),
        ("jobs", "from . import run"),
        ("analysis", "import not_a_package_anyone_listed"),
    ],
)
def test_a_wrong_import_is_seen(room: str, line: str) -> None:
    ((_, package),) = imported(ast.parse(line))
    assert not allowed(room, package)


def test_import_survey_means_the_product() -> None:
    import survey

    assert survey.__file__ is not None
    assert Path(survey.__file__).parent == ROOT / "survey"
