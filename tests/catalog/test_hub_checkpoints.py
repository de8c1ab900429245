"""Checkpoints on the model hub and in folders laid out like it, from a server on this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

from catalog.checkpoint_references import Checkpoint, joint_sha256, resolve
from catalog.downloads import FileStore
from catalog.files import file_sha256
from catalog.hub_checkpoints import hub_files, hub_reference
from catalog.model_fit import misfit
from catalog.model_loading import load_model
from catalog.models import find
from catalog.weights.hub_layout import shards_of, weights_among
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.plan import make_plan
from jobs.planning.prefetch import supply
from survey.errors import CheckpointError
from tests.catalog.downloads.bad_server import Web, ends_after, serving

NAME = "small:cifar_resnet8"
COMMIT = "c0ffee" + "0" * 34


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Web]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "no_cache"))
    with serving() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url("").rstrip("/"))
        yield server


def sharded(folder: Path, state: dict[str, torch.Tensor]) -> dict[str, bytes]:
    """Write weights as two shards and their index; return what each file holds."""
    folder.mkdir()
    keys = sorted(state)
    weight_map = {}
    for number, part in enumerate((keys[::2], keys[1::2]), 1):
        name = f"model-{number:05}-of-00002.safetensors"
        save_file({key: state[key] for key in part}, folder / name)
        weight_map |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def publish(web: Web, repository: str, files: dict[str, bytes], revision: str = "main") -> None:
    siblings = [
        {"rfilename": path, "size": len(body), "lfs": {"sha256": hashlib.sha256(body).hexdigest()}}
        for path, body in files.items()
    ]
    listing = {"sha": COMMIT, "tags": ["license:mit"], "siblings": siblings}
    web.serve(
        f"/api/models/{repository}/revision/{revision}",
        json.dumps(listing).encode(),
        headers={"Content-Type": "application/json"},
    )
    for path, body in files.items():
        web.serve(f"/{repository}/resolve/{COMMIT}/{path}", body)


def planned(reference: str, store: FileStore):
    values = {"models": [{"name": NAME, "checkpoints": reference}]}
    definition = parse_definition(values, "test", Path())
    problems = supply(definition, store, lambda *_: None)
    return make_plan(definition, {}, Holdings(store=store)), problems


def test_a_repository_of_shards_is_fetched_once_and_loaded(web: Web, tmp_path: Path) -> None:
    (architecture,) = find(NAME)
    state = load_model(architecture, Checkpoint("init:3", "init", seed=3)).model.state_dict()
    files = sharded(tmp_path / "local", state)
    publish(web, "lab/net", files, "v1%2Ftest")
    web.files[f"/lab/net/resolve/{COMMIT}/model-00002-of-00002.safetensors"].faults = [
        ends_after(5000)
    ]
    store = FileStore(tmp_path / "files")
    plan, problems = planned("hf:lab/net@v1%2Ftest", store)
    assert not problems
    (job,) = plan.jobs
    assert plan.unfit == {}
    assert job.checkpoint.reference == "hf://lab/net@v1%2Ftest"
    assert [file.licence for file in job.checkpoint.remote] == ["mit", "mit"]
    loaded = load_model(architecture, job.checkpoint)
    assert all(torch.equal(loaded.model.state_dict()[key], state[key]) for key in state)
    # The same weights in a folder on this machine are the same run.
    local = resolve(f"file:{tmp_path}/local", architecture, Path())
    assert local.sha256() == job.checkpoint_sha256 == loaded.sha256
    assert web.ranges(f"/lab/net/resolve/{COMMIT}/model-00002-of-00002.safetensors")[1]
    assert {headers["Authorization"] for _, headers in web.requests} == {"Bearer hf_secret"}
    asked = len(web.requests)
    assert planned("hf://lab/net@v1%2Ftest", FileStore(tmp_path / "files", offline=True))[0] == plan
    assert len(web.requests) == asked


def test_a_file_is_named_without_a_listing_and_folders_have_their_own(
    web: Web, tmp_path: Path
) -> None:
    body = b"weights"
    web.serve("/lab/net/resolve/main/best.pth", body)
    publish(web, "lab/net", {"step-1/pytorch_model.bin": body, "step-2/a.pth": body, "b.txt": b"b"})
    store = FileStore(tmp_path / "files")
    for reference, url in (
        ("hf://lab/net/best.pth", "hf://lab/net/best.pth"),
        ("hf://lab/net/step-1", f"hf://lab/net@{COMMIT}/step-1/pytorch_model.bin"),
        ("hf://lab/net/step-2/", f"hf://lab/net@{COMMIT}/step-2/a.pth"),
    ):
        known = hub_files(hub_reference(reference), store.get)
        assert ([file.url for file in known.files], known.complete) == ([url], True)
    with pytest.raises(CheckpointError, match="holds no weights"):
        hub_files("hf://lab/net", store.get)


def test_what_the_listing_does_not_promise_is_refused(web: Web, tmp_path: Path) -> None:
    publish(web, "lab/net", {"model.safetensors": b"promised"})
    web.serve(f"/lab/net/resolve/{COMMIT}/model.safetensors", b"replaced")
    plan, problems = planned("hf://lab/net", FileStore(tmp_path / "files"))
    assert "sha256" in str(*problems.values())
    assert (plan.jobs, len(plan.lacking)) == ((), 1)
    assert "404" in str(*planned("hf://lab/none", FileStore(tmp_path / "files"))[1].values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"rfilename": 3},
        {"rfilename": "\ud800.pt"},
        {"size": "x"},
        {"size": 10**400},
        {"size": [1]},
        {"lfs": {"sha256": 5}},
        {"lfs": {"sha256": "../../passwd"}},
        {"sha": "main/../.."},
    ],
    ids=str,
)
def test_a_listing_of_other_values_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    sibling = {"rfilename": "model.safetensors", "size": 5}
    listing = tmp_path / "listing.json"
    listing.write_text(json.dumps({"sha": COMMIT, "siblings": [sibling]}))
    (known,) = hub_files("hf://lab/net", lambda _: listing).files
    assert (known.name, known.bytes) == ("model.safetensors", 5)
    listing.write_text(json.dumps({"sha": COMMIT, "siblings": [{**sibling, **wrong}], **wrong}))
    with pytest.raises(CheckpointError, match="listing of hf://lab/net cannot be read"):
        hub_files("hf://lab/net", lambda _: listing)


@pytest.mark.parametrize("name", ["hf:net", "hf://", "hf://a/b@", "hf://a/b@x y", "hf://a/b/../c"])
def test_references_have_one_form(name: str) -> None:
    with pytest.raises(CheckpointError):
        resolve(name, find(NAME)[0], Path())


def test_safetensors_come_first_and_doubts_are_named() -> None:
    names = ["pytorch_model.bin", "model.safetensors.index.json", "config.json", "z.pth"]
    assert weights_among(names, "x") == "model.safetensors.index.json"
    assert weights_among([*names, "model.safetensors"], "x") == "model.safetensors"
    assert weights_among(names[2:], "x") == "z.pth"
    for doubtful in (["a.pth", "b.pth"], ["config.json"], []):
        with pytest.raises(CheckpointError):
            weights_among(doubtful, "x")


NAMES = ("../x", "/x", "", ".", "a\0b", "\ud800")


@pytest.mark.parametrize(
    "index", [*(json.dumps({"weight_map": {"a": name}}) for name in NAMES), "{}", "[", "3"]
)
def test_an_index_leads_nowhere_else(tmp_path: Path, index: str) -> None:
    (tmp_path / "i.json").write_text(index)
    with pytest.raises(CheckpointError):
        shards_of(tmp_path / "i.json")


def test_shards_are_of_one_checkpoint_and_all_there(tmp_path: Path) -> None:
    (architecture,) = find(NAME)
    state = architecture.build().state_dict()
    names = sorted(sharded(tmp_path / "net", state))[:2]
    checkpoint = resolve("file:net", architecture, tmp_path)
    assert [path.name for path in checkpoint.files] == names
    assert joint_sha256([file_sha256(path) for path in checkpoint.files]) == checkpoint.sha256()
    assert misfit(architecture, *checkpoint.files) is None
    assert "keys missing" in (misfit(architecture, checkpoint.files[0]) or "")
    (tmp_path / "net" / names[1]).write_bytes((tmp_path / "net" / names[0]).read_bytes())
    assert "another of its" in (misfit(architecture, *checkpoint.files) or "")
    (tmp_path / "net" / names[1]).unlink()
    with pytest.raises(CheckpointError, match=names[1]):
        resolve("file:net", architecture, tmp_path)
