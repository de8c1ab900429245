"""Public names of a package that are imported on first use."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    file : str
        ``__file__`` of the package. The names are those it imports by ``from ... import`` under
        ``if TYPE_CHECKING:``, where type checkers read them too.
    """
    block = next(
        each for each in ast.parse(Path(file).read_bytes()).body if isinstance(each, ast.If)
    )
    imports = [each for each in block.body if isinstance(each, ast.ImportFrom)]
    modules = {alias.name: str(each.module) for each in imports for alias in each.names}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(modules[name]), name)

    public = sorted(modules)
    return load, lambda: public, public
