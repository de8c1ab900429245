"""Bad input: a clear error, the right exit code, and nothing half-written."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from catalog.models import find
from tests.acceptance.command import rows, survey

LOCAL = ("--runner", "local")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["run", "-m", "torchvision:resnet5"],
            ["unknown architecture", "did you mean", "resnet50"],
        ),
        (["run", "-m", "small:digits_vgg7", "--images-per-score", "1"], ["images_per_score is 1"]),
        (
            ["run", "-m", "small:digits_vgg7", "--images-per-score", "4000"],
            ["1797", "images_per_score"],
        ),
        (["run", "-m", "small:cifar_resnet8"], ["init:SEED", "file:PATH"]),
        (["run", "-m", "small:cifar_*"], ["bundled"]),
        (["run", "-m", "small:digits_vgg7", "-d", "digit"], ["unknown dataset", "digits"]),
        (["run", "-m", "small:digits_vgg7", "-d", "folder:nowhere"], ["nowhere"]),
        (["run", "-m", "small:digits_vgg7", "-d", "data/mine"], ["folder:data/mine"]),
        (["run", "-m", "python:nets.py:net", "-d", "digits"], ["write nets, without the .py"]),
        (["run", "-m", "small:digits_vgg7", "-c", "file:nowhere.pth"], ["nowhere.pth"]),
        (["run", "-m", "small:digits_vgg7", "--shrinkage", "lw"], ["shrinkage", "ledoit-wolf"]),
        (["run", "-m", "small:digits_vgg7", "--pooling", "max"], ["--pooling", "'max'", "flatten"]),
        (["run"], ["nothing to measure", "--model"]),
        (["run", "none.toml"], ["none.toml"]),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(arguments, words, tmp_path):
    ended = survey(*arguments, *LOCAL, home=tmp_path / "home", code=2)
    for text in words:
        assert text in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "home").exists()


def test_a_key_that_does_not_exist_is_named(tmp_path):
    file = tmp_path / "zoo.toml"
    file.write_text('[[models]]\nname = "small:digits_vgg7"\n[settings]\nimage_per_score = 64\n')
    ended = survey("run", file, *LOCAL, home=tmp_path / "home", code=2)
    assert "unknown setting 'image_per_score'" in ended.stderr
    assert "did you mean images_per_score" in ended.stderr


def test_a_home_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    ended = survey("demo", "--runner", "local", home=tmp_path / "file" / "home", code=2)
    assert "is a file" in ended.stderr
    planned = ("plan", "-m", "small:digits_vgg7")
    for place in (tmp_path / "file", tmp_path / "file" / "home"):
        survey(*planned, home=place, code=2)
        survey("linearise", "--plan", home=place, code=2)
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_home_on_a_read_only_mount_is_refused(tmp_path):
    mount = tmp_path / "mount"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"mounting does not work here: {done.stderr.decode().strip()}")
    try:
        ended = survey("demo", "--runner", "local", home=mount / "home", code=3)
        assert "Traceback" not in ended.stderr
        assert "hint:" in ended.stderr
    finally:
        subprocess.run(["umount", str(mount)], check=True)


class Bomb:
    """Unpickling this would leave a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


def bad_checkpoints(folder: Path) -> dict[str, Path]:
    """Write files that no loader should accept."""
    (architecture,) = find("small:digits_vgg7")
    (other,) = find("small:digits_vgg9")
    names = ("bomb", "cut", "other", "page", "empty", "pipe", "folder")
    paths = {name: folder / f"{name}.pth" for name in names}
    torch.save({"state_dict": Bomb(folder / "mark")}, paths["bomb"])
    torch.save(architecture.build().state_dict(), paths["cut"])
    paths["cut"].write_bytes(paths["cut"].read_bytes()[:-2000])
    torch.save(other.build().state_dict(), paths["other"])
    paths["page"].write_text("<!DOCTYPE html><html>Quota exceeded</html>")
    paths["empty"].write_bytes(b"")
    os.mkfifo(paths["pipe"])
    paths["folder"].mkdir()
    return paths


def test_bad_checkpoints_are_failed_jobs_and_the_rest_goes_on(tmp_path):
    paths = bad_checkpoints(tmp_path)
    chosen = [f"-cfile:{path}" for path in paths.values()]
    home = tmp_path / "home"
    ended = survey(
        "run", "-m", "small:digits_vgg7", "-c", "bundled", *chosen, *LOCAL, home=home, code=1
    )
    assert not (tmp_path / "mark").exists()
    statuses = {
        Path(row["checkpoint"]).stem: row
        for row in rows("SELECT checkpoint, status, stage, error, traceback FROM runs", home)
    }
    assert statuses.pop("bundled")["status"] == "done"
    assert set(statuses) == set(paths)
    for row in statuses.values():
        assert (row["status"], row["stage"]) == ("failed", "load")
        assert "Traceback" in row["traceback"]
    assert "more than tensors" in statuses["bomb"]["error"]
    assert ended.stderr.count("error:") == len(paths)
    assert rows("SELECT count(DISTINCT run_id) AS n FROM batch_scores", home) == [{"n": 1}]
    failures = rows("SELECT stage, reason FROM failures", home)
    assert len(failures) == len(paths)


def pictures(folder: Path, count: int) -> Path:
    """Write an ImageFolder of two classes."""
    generator = np.random.default_rng(0)
    for number in range(count):
        place = folder / f"class{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{number:03}.png")
    return folder


def test_a_broken_image_is_named_skipped_and_counted(tmp_path):
    folder = pictures(tmp_path / "pictures", 65)
    broken = folder / "class1" / "033.png"
    broken.write_bytes(broken.read_bytes()[:200])
    home = tmp_path / "home"
    arguments = (
        "run",
        "-m",
        "small:digits_vgg7",
        "-d",
        f"folder:{folder}",
        "--images-per-score",
        "64",
    )
    ended = survey(*arguments, *LOCAL, home=home)
    assert "033.png" in ended.stderr
    (run,) = rows("SELECT images, skipped_images, skipped_names, batches FROM runs", home)
    assert (run["images"], run["skipped_images"], run["batches"]) == (64, 1, 1)
    assert run["skipped_names"] == ["class1/033.png"]


def test_an_address_where_nobody_listens_is_refused_at_once(tmp_path):
    arguments = ("run", "-m", "small:digits_vgg7", "--address", "127.0.0.1:1")
    ended = survey(*arguments, home=tmp_path / "home", code=3)
    assert "no Ray at '127.0.0.1:1'" in ended.stderr
    assert "hint:" in ended.stderr


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "pictures" / "class0").mkdir(parents=True)
    ended = survey(
        "run", "-m", "small:digits_vgg7", "-d", f"folder:{tmp_path / 'pictures'}", *LOCAL,
        home=tmp_path / "home", code=2,
    )  # fmt: skip
    assert "pictures" in ended.stderr
    assert "hint:" in ended.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{file}')",
        "COPY (SELECT 1) TO '{file}.out'",
        "ATTACH '{file}.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "DELETE FROM main.runs",
        "SELECT 1; SELECT 2",
        "SELECT affinty FROM signatures",
        "not sql",
    ],
)
def test_statements_that_may_not_run_are_refused(statement, tmp_path, finished_home):
    file = tmp_path / "file.csv"
    file.write_text("a,b\n1,2\n")
    ended = survey("sql", statement.format(file=file), home=finished_home, code=2)
    assert "error:" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("file")] == [
        "file.csv"
    ]


def test_questions_without_a_home_say_so(tmp_path):
    for arguments in (["status"], ["sql", "SELECT 1"], ["show", "abc"]):
        ended = survey(*arguments, home=tmp_path / "home", code=2)
        assert "no home" in ended.stderr
    assert not (tmp_path / "home").exists()
