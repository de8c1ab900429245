"""What the contracts of import-linter leave open: the packages of each room, and circles."""

from __future__ import annotations

import re
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.style.repository import ROOMS, ROOT, all_modules, relative

#: The third-party packages of each room, by the name they are imported under. So only jobs starts
#: clusters and commands, only catalog opens stores and builds models, and survey runs with three.
THIRD_PARTY: dict[str, frozenset[str]] = {
    "survey": frozenset({"numpy", "scipy", "torch"}),
    "catalog": frozenset(
        {
            "PIL",
            "alembic",
            "duckdb",
            "filelock",
            "huggingface_hub",
            "numpy",
            "platformdirs",
            "pyarrow",
            "pydantic",
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
            "annotated_types",
            "click",
            "cronsim",
            "fastapi",
            "filelock",
            "grpc",
            "jinja2",
            "numpy",
            "platformdirs",
            "prometheus_client",
            "pyarrow",
            "pydantic",
            "ray",
            "requests",
            "rich",
            "scipy",
            "starlette",
            "torch",
            "typer",
            "uvicorn",
        }
    ),
}


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Who imports whom, inside functions and for annotations too."""
    return grimp.build_graph(*ROOMS, include_external_packages=True, cache_dir=None)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str, imports: grimp.ImportGraph) -> None:
    # The type checker's own module of types is read by it alone.
    allowed = THIRD_PARTY[room] | set(ROOMS) | sys.stdlib_module_names | {"_typeshed"}
    assert not [
        (module, package)
        for module in sorted({room} | imports.find_descendants(room))
        for package in imports.find_modules_directly_imported_by(module)
        if package.split(".")[0] not in allowed
        # What an implementation's tests inherit.
        and (package, module.split(".")[1:2]) != ("pytest", ["contract_tests"])
    ]


def test_no_module_imports_itself_by_way_of_others(imports: grimp.ImportGraph) -> None:
    TopologicalSorter(
        {module: imports.find_modules_directly_imported_by(module) for module in imports.modules}
    ).prepare()


def test_one_file_knows_the_private_parts_of_ray() -> None:
    private = re.compile(r"\bray(\.\w+)*\._[a-z]")
    users = {relative(path) for path in all_modules() if private.search(path.read_text("utf-8"))}
    assert users == {"jobs/runners/ray/private.py"}


def test_import_survey_means_the_product() -> None:
    import survey

    assert survey.__file__ is not None
    assert Path(survey.__file__).parent == ROOT / "survey"
