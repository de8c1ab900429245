"""The catalog as its users meet it: published weights over HTTP, accuracy held against reports."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from safetensors.torch import save_file

from catalog import models
from catalog.datasets.kinds import imagenet
from catalog.models import find
from catalog.models.base import Architecture, Published, RemoteFile, Reported
from survey.errors import UnknownName
from tests.acceptance.command import rows, survey
from tests.catalog.datasets.test_imagenet import IMAGES, WNIDS, as_tar
from tests.shared_data import shared

QUICK = ("--images-per-score", "64", "--limit", "128", "--runner", "local")


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and counts what is asked of it."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Zoo:
    """A source that publishes one good file, one that is gone, and one that nobody can load."""

    name = "zoo"

    def __init__(self, address: str, sha256: str) -> None:
        (self.net,) = find("small:cifar_resnet8")
        transform = self.net.transform
        report = Reported(top1=0.9, dataset="digits", source="the zoo")
        known = {"source": "zoo", "architecture": self.net.full_name, "transform": transform}
        good = RemoteFile(url=f"{address}/good.safetensors", name="good.safetensors", sha256=sha256)
        gone = RemoteFile(url=f"{address}/gone.safetensors?token=secret", name="gone.safetensors")
        self._published = (
            Published(name="good", tag="good", file=good, reported=(report,), **known),
            Published(name="gone", tag="gone", file=gone, **known),
            Published(name="odd", tag="odd", file=good, refusal="it is a JAX pickle", **known),
        )

    def names(self) -> list[str]:
        return []

    def get(self, name: str) -> Architecture:
        raise UnknownName("zoo architecture", name, ())

    def published(self) -> tuple[Published, ...]:
        return self._published


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Publish weights on this machine; yields what is asked of their server."""
    folder = tmp_path / "served"
    folder.mkdir()
    (net,) = find("small:cifar_resnet8")
    save_file(net.build().state_dict(), folder / "good.safetensors")
    sha256 = hashlib.sha256((folder / "good.safetensors").read_bytes()).hexdigest()
    handler = type("Handler", (Quiet,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        source = Zoo(f"http://127.0.0.1:{server.server_port}", sha256)
        monkeypatch.setattr(models, "sources", lambda: (*models.SOURCES, source))
        monkeypatch.setattr("catalog.models.published.sources", models.sources)
        monkeypatch.setattr("catalog.models.selection.sources", models.sources)
        monkeypatch.setenv("no_proxy", "*")
        yield handler.asked
        server.shutdown()
        thread.join()


def test_published_weights_are_fetched_once_and_measured(zoo: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    survey("run", "-m", "zoo:good", "-d", "digits", *QUICK, home=home)
    (run,) = rows("SELECT * FROM runs", home)
    assert (run["architecture"], run["checkpoint"], run["images"]) == (
        "cifar_resnet8",
        "zoo:good",
        128,
    )
    assert (run["reported_top1"], run["expected_top1"]) == (0.9, 0.9)
    # Random weights do not recognise nine digits of ten.
    assert "expected 0.9000 (the zoo)" in run["suspicion"]
    assert (run["family_group"], run["year"]) == ("residual", 2015)
    survey("run", "-m", "zoo:good", "-d", "digits", *QUICK, "--pooling", "pre", home=home)
    assert zoo == ["/good.safetensors"]


def test_offline_lists_all_that_is_lacking(zoo: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    ended = survey("run", "-m", "zoo:g*", *QUICK, "--offline", home=home, code=2)
    assert zoo == []
    for text in ("good.safetensors", "gone.safetensors", "incoming", "sha256", "127.0.0.1"):
        assert text in ended.stderr
    assert "secret" not in ended.stderr
    # Each file, its address and its place have lines of their own.
    assert sum(line.startswith("    to   /") for line in ended.stderr.splitlines()) == 2
    planned = json.loads(survey("plan", "-m", "zoo:g*", "--format", "json", home=home).stdout)
    assert [row["state"] for row in planned] == ["to fetch", "to fetch"]
    place = next(
        Path(row["place"])
        for row in json.loads(
            survey("fetch", "-m", "zoo:good", "--dry-run", "--format", "json", home=home).stdout
        )
    )
    # What a person puts there is taken in.
    place.parent.mkdir(parents=True)
    place.write_bytes((tmp_path / "served/good.safetensors").read_bytes())
    survey("run", "-m", "zoo:good", *QUICK, "--offline", home=home)
    refused = survey("fetch", "-m", "zoo:gone", "--offline", home=home, code=2)
    # Nothing is announced that is not fetched.
    assert refused.stderr.startswith("error:")
    assert zoo == []


def test_a_dry_run_needs_no_home_and_makes_none(zoo: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    ended = survey("fetch", "--model", "zoo:good", "--dry-run", "--format", "json", home=home)
    (needed,) = json.loads(ended.stdout)
    assert needed["state"] == "to fetch"
    assert not home.exists()
    assert not zoo


def test_one_file_that_is_gone_does_not_stop_the_others(zoo: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    ended = survey("run", "-m", "zoo:g*", *QUICK, home=home, code=1)
    assert "gone.safetensors" in ended.stderr
    assert "404" in ended.stderr
    assert "secret" not in ended.stderr
    assert [run["checkpoint"] for run in rows("SELECT * FROM runs", home)] == ["zoo:good"]
    listed = survey("fetch", "-m", "zoo:g*", "--format", "json", home=home, code=1)
    assert [row["state"] for row in json.loads(listed.stdout)] == ["here", "to fetch"]


def test_what_cannot_be_loaded_says_so_before_anything_is_fetched(
    zoo: list[str], tmp_path: Path
) -> None:
    ended = survey("run", "-m", "zoo:odd", *QUICK, home=tmp_path / "home", code=2)
    assert "JAX pickle" in ended.stderr
    assert zoo == []


@pytest.mark.slow(seconds=20)
@pytest.mark.long
@pytest.mark.real_data
def test_a_wrong_normalisation_makes_a_run_suspect(tmp_path: Path) -> None:
    home, survey_file = tmp_path / "home", tmp_path / "resnet20.toml"
    checkpoint = shared("data/checkpoints/resnet20-12fca82f.th")
    dataset = f"folder:{shared('data/cifar10-sample')}"
    entry = f"""
        [[models]]
        name = "small:cifar_resnet20"
        checkpoints = "file:{checkpoint}"
        expect_top1 = {{ "{dataset}" = 0.8086 }}
    """
    wrong = "mean = [0.5, 0.5, 0.5]\nstd = [0.5, 0.5, 0.5]"
    survey_file.write_text(f'{entry}\n{entry}\n{wrong}\n[[datasets]]\nname = "{dataset}"\n')
    survey("run", survey_file, "--runner", "local", home=home)
    right, mistaken = rows("SELECT * FROM runs ORDER BY suspicion IS NOT NULL", home)
    assert right["measured_top1"] == pytest.approx(0.8086, abs=5e-5)
    assert right["suspicion"] is None
    assert "expected 0.8086 (declared)" in mistaken["suspicion"]
    ended = survey("status", "--format", "json", home=home)
    states = {row["run_id"]: row["state"] for row in json.loads(ended.stdout)}
    assert states == {right["run_id"]: "done", mistaken["run_id"]: "suspect"}
    assert "1 suspect" in ended.stderr
    # An expectation that is declared later is held against what was measured before.
    survey_file.write_text(survey_file.read_text().replace("0.8086", "0.99"))
    survey("run", survey_file, "--runner", "local", home=home)
    assert len(rows("SELECT * FROM runs WHERE suspicion LIKE '%0.9900%'", home)) == 2


def test_imagenet_is_surveyed_where_it_lies_in_the_home(tmp_path, monkeypatch) -> None:
    home = tmp_path / "home"
    asked = ("-m", "squeezenet1_1", "-c", "init:0", "-d", "imagenet", "--images-per-score", "12")
    ended = survey("run", *asked, "--runner", "local", home=home, code=2)
    assert str(home / "datasets" / "imagenet") in ended.stderr
    assert not home.exists()
    monkeypatch.setattr(imagenet, "IMAGES", IMAGES)
    monkeypatch.setattr(imagenet, "IMAGENET_CLASSES", len(WNIDS))
    as_tar(home / "datasets" / "imagenet")
    survey("run", *asked, "--runner", "local", home=home)
    (run,) = rows("SELECT status, images, measured_top1 IS NOT NULL AS labelled FROM runs", home)
    assert run == {"status": "done", "images": IMAGES, "labelled": True}
    zoo = tmp_path / "zoo.toml"
    zoo.write_text(
        """
        models = [{ name = "squeezenet1_1", checkpoints = "init:0" }]
        datasets = [{ name = "imagenet" }]
        settings = { images_per_score = 12 }
        """
    )
    survey("schedule", "add", "weekly", zoo, "--cron", "0 3 * * 1", home=home)


def test_what_there_is_can_be_listed_and_filtered(tmp_path: Path) -> None:
    home = tmp_path / "home"

    def listed(*arguments: str) -> list[dict[str, object]]:
        return json.loads(survey(*arguments, "--format", "json", home=home).stdout)

    paper = listed("models", "paper")
    assert len(paper) == 36
    (resnet,) = listed("models", "torchvision:resnet50")
    assert resnet["parameters"] == resnet["published_parameters"] == 25_557_032
    assert resnet["family_group"] == "residual"
    small = listed("models", "torchvision:*", "--family", "resnet", "--max-params", "12")
    assert [row["architecture"] for row in small] == ["torchvision:resnet18"]
    probes = listed("checkpoints", "ssl:*", "--protocol", "linear", "--min-top1", "0.75")
    assert {row["architecture"] for row in probes} == {"torchvision:resnet50"}
    assert all(row["reported_top1"] >= 0.75 for row in probes)
    (byol,) = listed("checkpoints", "ssl:byol_1000")
    assert "JAX" in byol["refusal"]
    facts = {row["fact"]: row for row in listed("models", "show", "ssl:swav_800")}
    assert "0.228" in facts["images are prepared"]["value"]
    assert facts["year"]["source"] == "arXiv:1512.03385"
    assert "cifar10" in {row["dataset"] for row in listed("datasets")}
    ended = survey("models", "torchvision:resnet5O", home=home, code=2)
    assert "did you mean torchvision:resnet50" in ended.stderr
    calls = listed("models", "show", "small:digits_vgg7", "--sites")
    assert {"path", "function", "shape", "layout", "site", "reason"} == set(calls[0])
    survey("models", "--sites", home=home, code=2)
    survey("models", "show", home=home, code=2)
    survey("models", "show", "resnet50", "--family", "ResNet", home=home, code=2)
    ended = survey("checkpoints", "ssl:swav_800", home=home)
    assert ended.stderr == "1 checkpoint\n"
    ended = survey("datasets", "cifar", home=home, code=2)
    assert "did you mean cifar10" in ended.stderr
    (digits,) = listed("datasets", "digits:heldout", "--here")
    assert digits["images"] == 355
    survey("models", "--group", "resdual", home=home, code=2)
