"""The user's code: hashed without import, and imported as it was hashed or not at all."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from pathlib import Path

import pytest

from catalog.models import find, user_code
from catalog.models.consent import trust
from catalog.models.user_code import UserCode
from survey.errors import CatalogError, UntrustedCode

#: A module that leaves a trace wherever it runs.
TRACED = "import pathlib\npathlib.Path({trace!r}).touch()\nVALUE = {value!r}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = set(sys.modules)
    monkeypatch.setattr(user_code._HASHED, "folders", {})
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def written(path: Path, trace: Path | None = None, value: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TRACED.format(trace=str(trace or os.devnull), value=value))
    return path


def code_of(module: str) -> UserCode:
    code = user_code.user_code(module)
    assert code is not None
    return code


def test_hashing_runs_neither_the_module_nor_the_packages_around_it(folder: Path) -> None:
    trace = folder / "trace"
    for name in ("__init__", "inner/__init__", "inner/nets", "inner/other"):
        written(folder / f"mine/{name}.py", trace)
    code = code_of("mine.inner.nets")
    assert code.root == folder
    assert set(code.files) == {
        f"mine/{name}.py" for name in ("__init__", "inner/__init__", "inner/nets", "inner/other")
    }
    assert not trace.exists()
    assert "mine" not in sys.modules
    code.load()
    assert trace.exists()


def test_folders_without_init_lead_to_a_module(folder: Path) -> None:
    written(folder / "outer/inner/nets.py")
    code = code_of("outer.inner.nets")
    assert set(code.files) == {"outer/inner/nets.py"}
    assert code.load().VALUE == 1


def test_the_hash_is_of_all_that_can_be_imported_and_of_nothing_else(folder: Path) -> None:
    written(folder / "nets.py")
    helper = written(folder / "helpers/helper.py")
    before = code_of("nets").sha256
    (folder / "weights.pth").write_bytes(b"data")
    written(folder / ".hidden/x.py")
    written(folder / "__pycache__/nets.cpython-311.pyc")
    written(folder / "data/deep/x.py")
    assert code_of("nets").sha256 == before
    for change in (
        lambda: helper.write_text("VALUE = 2\n"),
        lambda: written(folder / "helpers/another.py"),
        lambda: (folder / "helpers/native.so").write_bytes(b"\x7fELF"),
        lambda: helper.rename(folder / "helpers/renamed.py"),
    ):
        change()
        assert code_of("nets").sha256 != before
        before = code_of("nets").sha256


def test_the_hash_is_the_same_wherever_the_folder_lies(folder: Path, monkeypatch) -> None:
    written(folder / "one/nets.py")
    written(folder / "two/nets.py")
    hashes = set()
    for name in ("one", "two"):
        monkeypatch.chdir(folder / name)
        hashes.add(code_of("nets").sha256)
    assert len(hashes) == 1


def test_links_are_followed_and_end(folder: Path) -> None:
    elsewhere = written(folder / "elsewhere/real.py")
    inside = folder / "inside"
    written(inside / "nets.py")
    (inside / "linked.py").symlink_to(elsewhere)
    (inside / "again").symlink_to(inside)
    os.chdir(inside)
    before = code_of("nets")
    assert set(before.files) == {"nets.py", "linked.py"}
    elsewhere.write_text("VALUE = 3\n")
    assert code_of("nets").sha256 != before.sha256


def test_a_folder_of_too_much_code_is_refused(folder: Path, monkeypatch) -> None:
    for number in range(4):
        written(folder / f"nets{number}.py")
    monkeypatch.setattr(user_code, "MOST_FILES", 3)
    with pytest.raises(CatalogError, match="holds more than") as caught:
        code_of("nets0")
    assert caught.value.hint


@pytest.mark.parametrize("module", ["os", "sys", "json.decoder", "xml"])
def test_parts_of_python_define_no_network(module: str) -> None:
    with pytest.raises(CatalogError, match=module):
        user_code.user_code(module)


def test_installed_packages_need_no_consent() -> None:
    assert user_code.user_code("torchvision.models") is None


def test_what_changed_after_hashing_is_not_run(folder: Path) -> None:
    trace = folder / "trace"
    written(folder / "nets.py")
    code = code_of("nets")
    written(folder / "nets.py", trace)
    with pytest.raises(ImportError, match="changed"):
        code.load()
    assert not trace.exists()


def test_a_file_that_is_new_since_hashing_is_not_run(folder: Path) -> None:
    trace = folder / "trace"
    (folder / "nets.py").write_text("def later():\n    import helper\n")
    module = code_of("nets").load()
    written(folder / "helper.py", trace)
    with pytest.raises(ImportError, match="new"):
        module.later()
    assert not trace.exists()


def test_byte_code_beside_a_source_is_not_run(folder: Path) -> None:
    trace = folder / "trace"
    # As long as the harmless one, so that Python takes its byte code for that of the other.
    harmful = written(folder / "nets.py", trace)
    cached = Path(importlib.util.cache_from_source(str(harmful)))
    py_compile.compile(str(harmful), cached)
    status, size = harmful.stat(), len(harmful.read_bytes())
    harmful.write_text("VALUE = 1\n".ljust(size, "#"))
    os.utime(harmful, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert code_of("nets").load().VALUE == 1
    assert not trace.exists()


def test_a_name_is_looked_up_only_given_consent_to_what_the_module_is_now(folder: Path) -> None:
    trace = folder / "trace"
    nets = written(folder / "nets.py", trace)
    nets.write_text(nets.read_text() + "def net(): return VALUE\n")
    with pytest.raises(UntrustedCode, match="nets") as caught:
        find("python:nets:net")
    assert "--trust" in str(caught.value.hint)
    assert not trace.exists()
    trust("python:nets:net")
    (architecture,) = find("python:nets:net")
    assert architecture.code_sha256 == code_of("nets").sha256
    assert trace.exists()
    nets.write_text(nets.read_text() + "# changed\n")
    with pytest.raises(UntrustedCode):
        find("python:nets:net")
