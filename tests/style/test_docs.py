"""Every module says what it owns."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.style.repository import all_modules, relative, repository_files


def docstring(path: Path) -> str | None:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", all_modules(), ids=relative)
def test_a_module_says_what_it_owns(path: Path) -> None:
    text = docstring(path)
    assert text, "no docstring at the top"
    first = text.split("\n\n", maxsplit=1)[0]
    assert first.rstrip().endswith((".", ":", "?")), "its first paragraph is no sentence"


def test_scripts_and_tests_say_what_they_show() -> None:
    paths = [
        path
        for path in repository_files()
        if path.suffix == ".py"
        and relative(path).startswith(("tests/", "bench/"))
        and path.name != "__init__.py"
    ]
    assert not [relative(path) for path in paths if not docstring(path)]
