"""The wheel: the whole product and nothing else, and it works where there is no checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.style.repository import ROOMS, ROOT, relative, repository_files

pytestmark = [pytest.mark.slow(seconds=40), pytest.mark.long]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the files that git has, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    for path in repository_files():
        copy = folder / "checkout" / relative(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, folder / "checkout")
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel, and the packages of this one behind it."""
    environment = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip("--python", environment / "bin" / "python", "install", "--no-deps", wheel)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "behind.pth").write_text(sysconfig.get_path("purelib"))
    return environment / "bin"


def pip(*arguments: str | Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--no-input", *arguments, "--no-index"], check=True
    )


def test_the_rooms_are_in_it_whole_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {relative(path) for path in repository_files()}
    assert names == {name for name in files if name.split("/")[0] in ROOMS}


def test_it_measures_asks_and_reports_outside_of_the_checkout(
    commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def run(command: str, *arguments: str) -> str:
        ended = subprocess.run(
            [commands / command, *arguments], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    imported = run("python", "-c", "import survey; print(survey.__file__)")
    assert Path(imported).is_relative_to(commands.parent)
    assert run("survey", "--version") in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    on_digits = ("--model", "small:digits_vgg7", "--dataset", "digits:heldout", "--limit", "96")
    run("survey", "run", *on_digits, "--batch-size", "48", "--runner", "local")
    assert run("survey", "sql", "SELECT count(*) FROM runs", "--format", "csv").endswith("1")
    run("survey", "report", "--out", "report")
    assert "digits_vgg7" in Path("report", "index.html").read_text(encoding="utf-8")
