"""Every module says what it owns."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.style.repository import all_modules, relative, repository_files


def docstring(path: Path) -> str | None:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_every_module_says_what_it_owns() -> None:
    first = {path: (docstring(path) or "").split("\n\n")[0].rstrip() for path in all_modules()}
    ends = (".", ":", "?")
    assert not [relative(path) for path, sentence in first.items() if not sentence.endswith(ends)]


def test_scripts_and_tests_say_what_they_show() -> None:
    paths = [
        path
        for path in repository_files()
        if path.suffix == ".py"
        and relative(path).startswith(("tests/", "bench/"))
        and path.name != "__init__.py"
    ]
    assert not [relative(path) for path in paths if not docstring(path)]
