"""What the repository holds: small files, a whole lock, no trace of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.style.repository import ROOMS, ROOT, all_modules, relative, repository_files

LARGEST_BYTES = 1_000_000

#: Python files in one folder.
MOST_FILES = 24

#: Hosts of package registries; the brackets keep this file from matching itself.
REGISTRY = re.compile(r"[p]ypi\.org|[p]ythonhosted|[a]naconda\.org|[p]ytorch\.org/whl|:/{3}\w")

#: Absolute paths below folders that differ from machine to machine.
MACHINE_PATH = re.compile(r"(?<![\w.~$}>*/-])/(?:work|tmp|root|home|Users|mnt|opt)/\w")

#: A requirement of the lock: its name and pin, then everything up to the next one.
PIN = re.compile(r"^([a-z0-9][\w.-]*)==(\S+)((?:.*\n)(?:[ #].*\n)*)", re.MULTILINE)


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins() -> dict[str, tuple[str, str]]:
    """Return version and hashes of each package in the lock."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return {name: (version, rest) for name, version, rest in PIN.findall(text)}


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def normal(requirement: str) -> str:
    """Return the name of a requirement as registries compare it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]).lower()


def test_no_file_is_large() -> None:
    large = [relative(path) for path in repository_files() if path.stat().st_size > LARGEST_BYTES]
    assert not large


def names_a_machine(line: str) -> bool:
    local = f"{ROOT}/" in line or f"{Path.home()}/" in line
    return local or bool(REGISTRY.search(line) or MACHINE_PATH.search(line))


def test_no_file_names_a_machine_or_a_registry() -> None:
    result = [
        f"{relative(path)}:{number}"
        for path in repository_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if names_a_machine(line)
    ]
    assert not result


@pytest.mark.parametrize("folder", ["home", "tmp", "opt"])
def test_a_machine_path_is_seen(folder: str) -> None:
    assert MACHINE_PATH.search(f'path = "/{folder}/someone/data"')
    assert not MACHINE_PATH.search(f"survey/{folder}/file.py and ~/{folder}/x and $X/{folder}/y")


def test_every_pin_of_the_lock_has_hashes() -> None:
    result = pins()
    assert len(result) > 50
    assert not [name for name, (_, rest) in result.items() if "--hash=sha256:" not in rest]


def test_the_lock_holds_pins_and_hashes_alone() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    other = re.compile(
        r"[a-z0-9][\w.-]*==\S+( ; .*)? \\$|    --hash=sha256:[0-9a-f]{64}( \\)?$| *#"
    )
    # No option line, so no index address, no editable and no file.
    assert not [line for line in lines if not other.match(line)]


def test_the_lock_holds_every_dependency_and_the_build() -> None:
    declared = project()
    needed = [
        *declared["project"]["dependencies"],
        *declared["project"]["optional-dependencies"]["dev"],
        *declared["build-system"]["requires"],
    ]
    assert not {normal(requirement) for requirement in needed} - {normal(name) for name in pins()}


def test_a_folder_holds_as_many_files_as_can_be_looked_over() -> None:
    python = [relative(path) for path in repository_files() if path.suffix == ".py"]
    sizes = Counter(name.rpartition("/")[0] for name in python)
    assert not {folder for folder, size in sizes.items() if size > MOST_FILES}


def test_no_two_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for path in all_modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert not {name for name, times in names.items() if times > 1}


def test_every_folder_of_modules_is_a_package() -> None:
    # Packages are discovered; a folder without __init__.py would be left out of the wheel.
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            if "migrations" not in path.parts:
                assert (path.parent / "__init__.py").exists(), path


def test_every_target_of_the_makefile_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    for target in phony.group(1).split():
        assert re.search(rf"^{target}:.*  ## \S", text, re.MULTILINE), target


def test_packages_that_cannot_be_installed_fail_the_installation(tmp_path: Path) -> None:
    """A wrong hash is none that is overlooked, whichever tool installs."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\ncase "$*" in *--require-hashes*) exit 1; esac\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "install"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Installed" not in done.stdout
    assert not (tmp_path / ".venv" / ".installed").exists()


def test_the_version_is_in_the_changelog() -> None:
    version = project()["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
