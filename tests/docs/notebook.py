"""Notebooks without a kernel: their cells in order, in one namespace, each with its last value.

``python -m tests.docs.notebook docs/notebook.ipynb`` runs a notebook beside a folder
``survey-home`` and keeps its small outputs in it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

#: Larger outputs, such as figures, are left out of the file.
MOST_CHARACTERS = 4000


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict[str, Any]) -> list[tuple[str, Any]]:
    """Run the code cells and return what each printed and its last expression's value."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [_run("".join(cell["source"]), namespace) for cell in code_cells(notebook)]


def _run(source: str, namespace: dict[str, Any]) -> tuple[str, Any]:
    tree, value, printed = ast.parse(source), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    return printed.getvalue(), value


def keep_outputs(path: Path) -> None:
    """Run a notebook and write its small outputs into it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    results = run(notebook)
    for number, (cell, (printed, value)) in enumerate(
        zip(code_cells(notebook), results, strict=True), start=1
    ):
        cell["execution_count"], cell["outputs"] = number, []
        if printed:
            lines = printed.splitlines(keepends=True)
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": lines})
        text = repr(value)
        if value is not None and len(text) <= MOST_CHARACTERS and not text.startswith("alt."):
            lines = text.splitlines(keepends=True)
            cell["outputs"].append(
                {
                    "data": {"text/plain": lines},
                    "execution_count": number,
                    "metadata": {},
                    "output_type": "execute_result",
                }
            )
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    keep_outputs(Path(sys.argv[1]))
