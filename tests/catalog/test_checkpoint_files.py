"""Files that a reference names: globs in the order of their numbers, and names that look so."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.checkpoint_files import expanded
from survey.errors import CheckpointError


def _files(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_a_glob_takes_its_files_in_the_order_of_their_numbers(tmp_path):
    _files(tmp_path, *(f"run{r}/epoch_{n}.pth" for r in (10, 9) for n in (10, 2, 1, 100)))
    _files(tmp_path, "run9/log.txt", "run9/²/epoch_3.pth")
    (tmp_path / "run9" / "epoch_7.pth").mkdir()
    expected = [f"file:run{r}/epoch_{n}.pth" for r in (9, 10) for n in (1, 2, 10, 100)]
    assert expanded("file:run*/epoch_*.pth", tmp_path) == expected
    absolute = expanded(f"file:{tmp_path}/run9/epoch_1?.pth", Path("elsewhere"))
    assert absolute == [f"file:{tmp_path}/run9/epoch_10.pth"]
    assert len(expanded("file:**/epoch_*.pth", tmp_path)) == 9


def test_a_name_that_exists_is_no_glob(tmp_path):
    _files(tmp_path, "best[1].pth", "best1.pth", "a*b.pth", "axb.pth")
    assert expanded("file:best[1].pth", tmp_path) == ["file:best[1].pth"]
    assert expanded("file:a*b.pth", tmp_path) == ["file:a*b.pth"]
    assert expanded("file:best[12].pth", tmp_path) == ["file:best1.pth"]
    assert expanded("a1_*", tmp_path) == ["a1_*"]


@pytest.mark.parametrize("reference", ["file:exp/*.pth", "file:exp/none/*/e_*.pth", "file:*.none"])
def test_a_glob_that_fits_nothing_names_the_folder(tmp_path, reference):
    _files(tmp_path, "exp/notes.txt")
    with pytest.raises(CheckpointError) as caught:
        expanded(reference, tmp_path)
    plain = reference.removeprefix("file:").partition("*")[0]
    assert f"below {tmp_path / plain}" in caught.value.message


def test_a_glob_goes_round_no_links_and_leaves_hidden_files_out(tmp_path):
    _files(tmp_path, "a/one.pth", "a/.two.pth", "a/.hidden/three.pth")
    for number in (1, 2):
        (tmp_path / "a" / f"link{number}").symlink_to(tmp_path / "a")
    assert expanded("file:**/*.pth", tmp_path) == ["file:a/one.pth"]
    assert expanded(f"file:{tmp_path}/**/*.pth", Path("/")) == [f"file:{tmp_path}/a/one.pth"]
    assert expanded("file:a/.h*/*.pth", tmp_path) == ["file:a/.hidden/three.pth"]
    assert expanded("file:../a/o*.pth", tmp_path / "a") == ["file:../a/one.pth"]
    with pytest.raises(CheckpointError):
        expanded("file:a**/one.pth", tmp_path)
