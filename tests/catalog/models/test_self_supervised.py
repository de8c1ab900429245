"""Self-supervised ResNet-50s: every documented form of file gives exactly its weights."""

from __future__ import annotations

import argparse
import copy
import csv
import io
import itertools
import random
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision import models

from catalog.checkpoint_references import resolve
from catalog.model_loading import load_model
from catalog.models import SOURCES, find
from catalog.models.base import KeyRules, Published
from catalog.models.self_supervised import ALIASES, ARCHITECTURE, SelfSupervisedSource
from catalog.models.sets import SETS
from catalog.weights.fitting import without_classifier
from catalog.weights.strict_loading import load_weights
from survey.errors import CheckpointError, UnknownName
from tests.shared_data import shared

pytestmark = pytest.mark.slow(seconds=12)

State = dict[str, torch.Tensor]

ENTRIES = {entry.name: entry for entry in SelfSupervisedSource().published()}
LOADABLE = [name for name, entry in ENTRIES.items() if entry.refusal is None]


def _miniature() -> nn.Module:
    """Return a ResNet-50 with all of its keys, and tensors of a few numbers."""
    with torch.device("meta"):
        model = models.resnet50()
    for name, layer in list(model.named_modules()):
        parent, _, attribute = name.rpartition(".")
        small: nn.Module | None = None
        if isinstance(layer, nn.Conv2d):
            small = nn.Conv2d(2, 3, 1, bias=False)
        elif isinstance(layer, nn.BatchNorm2d):
            small = nn.BatchNorm2d(3)
        elif isinstance(layer, nn.Linear):
            small = nn.Linear(3, 5)
        if small is not None:
            setattr(model.get_submodule(parent), attribute, small)
    return model


def _random_state(model: nn.Module, seed: int = 7) -> State:
    generator = torch.Generator().manual_seed(seed)
    return {
        key: torch.randn(tensor.shape, generator=generator)
        if tensor.is_floating_point()
        else torch.tensor(11)
        for key, tensor in model.state_dict().items()
    }


NETWORK = _miniature()
FEATURE_NETWORK = without_classifier(copy.deepcopy(NETWORK))
STATE = _random_state(NETWORK)
FEATURES = {key: tensor for key, tensor in STATE.items() if not key.startswith("fc.")}


@dataclass(frozen=True)
class Form:
    """One documented way in which files are packed."""

    #: Names of the checkpoints, as globs do not matter here.
    names: tuple[str, ...]
    #: Keys from the file's top to the weights.
    container: tuple[str, ...] = ()
    #: What stands before the network's own keys.
    prefix: str = ""
    #: Other tensors beside the weights: heads, queues, momentum encoders.
    beside: tuple[str, ...] = ()
    #: Other things beside the innermost container.
    others: dict[str, Any] = field(default_factory=dict)
    #: How the file is written.
    packing: str = "zip"

    def __str__(self) -> str:
        return f"{self.names[0]}-{'.'.join(self.container)}-{self.prefix}{self.packing}"


def _names(*starts: str) -> tuple[str, ...]:
    return tuple(name for name in LOADABLE if name.startswith(starts))


SCRIPT = {"epoch": 99, "args": argparse.Namespace(arch="resnet50", lr=0.3, milestones=[1, 2])}
SWAV = ("module.projection_head.0.weight", "module.projection_head.1.running_mean")
SWAV += ("module.prototypes.weight", "module.prototypes.prototypes0.weight")
MOCO = tuple(f"module.encoder_q.fc.{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias"))
MOCO += ("module.encoder_k.conv1.weight", "module.encoder_k.fc.0.bias", "module.queue")
LIGHTLY = (
    "teacher_backbone.conv1.weight",
    "student_backbone.conv1.weight",
    "key_backbone.bn1.bias",
)
LIGHTLY += ("projection_head.layers.0.weight", "prediction_head.layers.0.weight")
LIGHTLY += ("prototypes.heads.0.weight", "online_classifier.linear.weight", "criterion.center")

FORMS = [
    Form(_names("swav", "deepcluster"), (), "module.", SWAV),
    Form(_names("swav", "deepcluster"), ("state_dict",), "module.", SWAV, SCRIPT),
    Form(("dino_rn50",)),
    Form(
        ("dino_rn50",),
        ("teacher",),
        "module.backbone.",
        ("module.head.mlp.0.weight", "module.head.last_layer.weight_g"),
        {**SCRIPT, "student": {"module.backbone.conv1.weight": torch.ones(2)}, "optimizer": {}},
    ),
    Form(_names("moco_v1", "moco_v2"), ("state_dict",), "module.encoder_q.", MOCO, SCRIPT),
    Form(_names("trex")),
    Form(
        _names("trex"),
        ("model",),
        "module.encoder.",
        ("module.projector.0.weight", "module.memory.queue", "module.clf.weight"),
        {**SCRIPT, "fp16_scaler": {"scale": 65536.0, "growth_factor": np.float64(2.0)}},
    ),
    Form(_names("sce")),
    Form(_names("sce"), ("state_dict",)),
    Form(
        _names("sce"),
        ("state_dict",),
        "trunk.",
        ("projector.0.weight", "predictor.0.weight", "momentum_trunk.conv1.weight", "queue"),
        {"pytorch-lightning_version": "1.6.0", "hyper_parameters": {"lr": 0.1}},
    ),
    Form(_names("triplet"), ("state_dict",), others={"author": "OpenSelfSup"}, packing="legacy"),
    Form(
        _names("triplet"),
        ("state_dict",),
        "backbone.",
        ("online_net.0.conv1.weight", "target_net.0.conv1.weight", "neck.fc0.weight", "head.x.y"),
        {"meta": {"epoch": 200}},
        "legacy",
    ),
    Form(
        _names("ressl"),
        ("model",),
        "module.encoder_q.net.",
        ("module.encoder_q.head.0.weight", "module.encoder_k.net.conv1.weight", "module.queue"),
        {"optimizer": {"state": {}}, "epoch": 200},
    ),
    Form(("barlowtwins_1000", "vicreg_1000")),
    Form(("vicreg_1000",), ("model",), "module.backbone.", ("module.projector.0.weight",), SCRIPT),
    Form(
        ("simsiam_100",),
        ("state_dict",),
        "module.encoder.",
        ("module.encoder.fc.0.weight", "module.encoder.fc.6.bias", "module.predictor.0.weight"),
        {**SCRIPT, "optimizer": {"param_groups": [{"lr": 0.1}]}},
    ),
    Form(
        ("moco_v3_1000",),
        ("state_dict",),
        "module.base_encoder.",
        (
            "module.base_encoder.fc.0.weight",
            "module.momentum_encoder.conv1.weight",
            "module.predictor.0.weight",
        ),
        SCRIPT,
    ),
    Form(("obow_200",), ("network",), "", ("fc.weight", "fc.bias"), {"epoch": 200}, "zipped"),
    Form(("densecl_200",), ("state_dict",), others={"author": "DenseCL"}),
    Form(
        ("densecl_200",),
        ("state_dict",),
        "backbone.",
        ("encoder_q.0.conv1.weight", "encoder_k.0.conv1.weight", "queue", "queue2"),
        packing="legacy",
    ),
    Form(
        _names("mm_"),
        ("state_dict",),
        "backbone.",
        (
            "neck.fc0.weight",
            "head.predictor.fc0.weight",
            "target_net.module.0.conv1.weight",
            "data_preprocessor.mean",
        ),
        {"meta": {"mmengine_version": "0.1.0", "CLASSES": None}},
        "legacy",
    ),
    Form(
        ("vissl_simclr_1000",),
        ("classy_state_dict", "base_model", "model", "trunk"),
        "_feature_blocks.",
        others={"heads": {"0.clf.0.weight": torch.ones(2)}},
    ),
    Form(
        _names("lightly"),
        ("state_dict",),
        "backbone.",
        LIGHTLY,
        {"callbacks": {}, "loops": {"fit_loop": {}}, "hyper_parameters": {"num_classes": 1000}},
    ),
]


def _distinct() -> list[Form]:
    """Return one form for each way of packing and prefixing."""
    return list({(f.container, f.prefix != "", f.packing): f for f in FORMS}.values())


def _packed(path: Path, form: Form, state: State) -> Path:
    """Write a file as its publishers do, with its keys in any order."""
    tensors = {form.prefix + key: tensor for key, tensor in state.items()}
    tensors |= {key: torch.full((4, 3), 0.5) for key in form.beside}
    keys = list(tensors)
    random.Random(3).shuffle(keys)
    payload: Any = {key: tensors[key] for key in keys}
    others = form.others
    for key in reversed(form.container):
        payload, others = {**others, key: payload}, {"phase": 999}
    if form.packing == "zipped":
        content = io.BytesIO()
        torch.save(payload, content)
        small = content.tell() < 2**20
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if small else 0) as archive:
            archive.writestr("folder/weights.pth.tar", content.getvalue())
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=form.packing == "zip")
    return path


def _load(
    path: Path, rules: KeyRules, model: nn.Module | None = None
) -> tuple[State, tuple[str, ...]]:
    network = model or (NETWORK if rules.classifier else FEATURE_NETWORK)
    for tensor in network.state_dict().values():
        tensor.fill_(-1)
    return network.state_dict(), load_weights(network, path, ARCHITECTURE, rules)


def _assert_same(loaded: State, state: State) -> None:
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[key], state[key]) for key in state)


# Files as they are published.


def test_every_published_row_has_a_documented_form() -> None:
    assert {name for form in FORMS for name in form.names} == set(LOADABLE)
    assert len(LOADABLE) + len(ALIASES) == 57


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_documented_form_gives_its_weights(tmp_path: Path, form: Form) -> None:
    path = _packed(tmp_path / "file", form, FEATURES)
    # Rows with the same rules would do the same again.
    for rules in {ENTRIES[name].rules for name in form.names}:
        loaded, dropped = _load(path, rules)
        _assert_same(loaded, FEATURES)
        assert sorted(dropped) == sorted(form.beside)


@pytest.mark.parametrize("form", _distinct(), ids=str)
def test_every_form_may_be_in_half_precision_without_counters(tmp_path: Path, form: Form) -> None:
    half = {key: t.half() for key, t in FEATURES.items() if t.is_floating_point()}
    loaded, _ = _load(_packed(tmp_path / "file", form, half), ENTRIES[form.names[0]].rules)
    for key, tensor in half.items():
        assert loaded[key].dtype == torch.float32
        assert torch.equal(loaded[key], tensor.float())


def test_aliases_stand_in_plain_files_with_their_classifier(tmp_path: Path) -> None:
    keys = list(STATE)
    random.Random(5).shuffle(keys)
    state = {key: STATE[key] for key in keys}
    half = {k: t.half() if t.is_floating_point() else t for k, t in state.items()}
    save_file(state, tmp_path / "safetensors")
    torch.save(state, tmp_path / "torch")
    torch.save(half, tmp_path / "half")
    published = {entry.full_name: entry for source in SOURCES[1:] for entry in source.published()}
    for name in ALIASES.values():
        rules = published[name].rules
        assert name.startswith(published[name].architecture.split("_")[0])
        for kind in ("safetensors", "torch"):
            _assert_same(_load(tmp_path / kind, rules)[0], STATE)
        loaded, _ = _load(tmp_path / "half", rules)
        assert torch.equal(loaded["fc.weight"], STATE["fc.weight"].half().float())


# One form of each packing; the next test loads one packed as "zip".
@pytest.mark.slow(seconds=3)
@pytest.mark.parametrize(
    "form", {f.packing: f for f in FORMS if f.packing != "zip"}.values(), ids=str
)
def test_every_packing_holds_a_whole_resnet50(
    tmp_path: Path, form: Form, whole: tuple[nn.Module, State]
) -> None:
    model, state = whole
    path = _packed(tmp_path / "file", form, state)
    loaded, _ = _load(path, ENTRIES[form.names[0]].rules, model)
    path.unlink()
    _assert_same(loaded, state)


@pytest.fixture(scope="module")
def whole() -> tuple[nn.Module, State]:
    (architecture,) = find(ARCHITECTURE)
    model = without_classifier(architecture.build())
    return model, _random_state(model)


@pytest.mark.slow(seconds=2)
def test_the_catalog_loads_published_weights(
    tmp_path: Path, whole: tuple[nn.Module, State]
) -> None:
    (architecture,) = find(ARCHITECTURE)
    form = next(form for form in FORMS if "simsiam_100" in form.names)
    checkpoint = resolve("ssl:simsiam_100", architecture, tmp_path)
    loaded = load_model(
        architecture, checkpoint.located(_packed(tmp_path / "file", form, whole[1]))
    )
    _assert_same(loaded.model.state_dict(), whole[1])
    assert sorted(loaded.dropped_keys) == sorted(form.beside)
    assert not checkpoint.classifies
    with torch.inference_mode():
        assert loaded.model(torch.zeros(1, 3, 32, 32)).shape == (1, 2048)


def test_a_published_file_that_is_damaged_can_be_had_anew(tmp_path: Path) -> None:
    (architecture,) = find(ARCHITECTURE)
    path = tmp_path / "kept"
    path.write_bytes(b"PK\3\4 and no more")
    checkpoint = resolve("ssl:simsiam_100", architecture, tmp_path).located(path)
    with pytest.raises(CheckpointError, match="damaged") as caught:
        load_model(architecture, checkpoint)
    assert f"remove {path} and run survey fetch" in (caught.value.hint or "")
    mine = resolve(f"file:{path}", architecture, tmp_path)
    with pytest.raises(CheckpointError, match="damaged") as caught:
        load_model(architecture, mine)
    assert "survey fetch" not in (caught.value.hint or "")


# What is known.


def test_counts_names_and_order() -> None:
    assert len(ENTRIES) == 49
    assert list(ENTRIES) == sorted(ENTRIES)
    assert SelfSupervisedSource().names() == []
    with pytest.raises(UnknownName, match="swav_800"):
        SelfSupervisedSource().get("swav_800")
    assert not {f"ssl:{name}" for name in ENTRIES} & set(ALIASES)
    assert {entry.architecture for entry in ENTRIES.values()} == {"torchvision:resnet50"}


def test_every_entry_says_where_it_is_from_and_how_sure_it_is() -> None:
    addresses = set()
    for entry in ENTRIES.values():
        assert entry.file is not None
        assert entry.file.url.startswith(("https://", "hf://"))
        assert "/view" not in entry.file.url
        assert entry.file.name
        assert "/" not in entry.file.name
        assert "repository" in entry.evidence
        assert "@" in entry.evidence
        assert entry.recipe_url
        assert not entry.rules.classifier
        assert all(not other.classifier for other in entry.rules.alternatives)
        addresses.add(entry.file.url)
    assert len(addresses) == len(ENTRIES)


def test_one_file_name_is_several_files() -> None:
    names = [entry.file.name for entry in ENTRIES.values() if entry.file]
    assert names.count("resnet50.pth") == 2
    assert names.count("epoch=99-step=500400.ckpt") > 2


def test_transforms_are_the_publishers() -> None:
    swav, trex, dino = ENTRIES["swav_800"], ENTRIES["trex"], ENTRIES["dino_rn50"]
    assert swav.transform.std == (0.228, 0.224, 0.225)
    assert (trex.transform.size, trex.transform.resize) == (224, 224)
    assert dino.transform.interpolation == trex.transform.interpolation == "bicubic"
    mm = ENTRIES["mm_byol_200"].transform
    assert mm.mean == pytest.approx([123.675 / 255, 116.28 / 255, 103.53 / 255])
    assert mm.std == pytest.approx([58.395 / 255, 57.12 / 255, 57.375 / 255])


def test_reported_accuracies_say_how_they_were_measured() -> None:
    linear, neighbours = ENTRIES["dino_rn50"].reported
    assert (linear.top1, linear.protocol) == (0.753, "linear")
    assert (neighbours.top1, neighbours.protocol) == (0.675, "knn")
    assert ENTRIES["barlowtwins_1000"].reported[0].top5 == 0.91
    assert ENTRIES["densecl_200"].reported == ()
    for entry in ENTRIES.values():
        for figure in entry.reported:
            assert 0.4 < figure.top1 < 0.81
            assert figure.dataset == "imagenet"
            assert figure.protocol != "supervised"


def test_a_pickle_of_jax_is_listed_and_refused(tmp_path: Path) -> None:
    byol = ENTRIES["byol_1000"]
    assert byol.refusal is not None
    assert "JAX" in byol.refusal
    assert "pads" in byol.refusal
    with pytest.raises(CheckpointError, match="JAX"):
        resolve("ssl:byol_1000", find(ARCHITECTURE)[0], tmp_path)


def test_the_articles_labels_have_their_candidates() -> None:
    paper = SETS["paper-ssl"]
    candidates: dict[str | None, list[str]] = {}
    for member in paper.members:
        candidates.setdefault(paper.label(member), []).append(member)
    assert len(candidates) == 17
    known = {f"ssl:{name}" for name in ENTRIES} | set(ALIASES.values())
    assert set(paper.members) <= known
    for names in candidates.values():
        for name, other in itertools.permutations(names, 2):
            if name.startswith("ssl:"):
                # Each candidate says that there is another.
                assert other in ENTRIES[name.removeprefix("ssl:")].notes


@pytest.mark.real_data
def test_the_table_says_what_was_gathered() -> None:
    with shared("facts/resnet50_checkpoints.csv").open(encoding="utf-8", newline="") as table:
        rows = {row["id"]: row for row in csv.DictReader(table)}
    assert set(rows) == set(ENTRIES) | {alias.removeprefix("ssl:") for alias in ALIASES}
    for name, entry in ENTRIES.items():
        for figure in entry.reported[:1]:
            assert rows[name]["in1k_top1"].startswith(str(round(figure.top1 * 100, 2)))
        assert entry.file is not None
        drive = "drive.google.com/file/d/" in rows[name]["url"]
        key = rows[name]["url"].split("/")[5 if drive else -1].split("?")[0]
        assert key in entry.file.url
        assert (entry.file.sha256_prefix or "") in rows[name]["doc_hash"]
        assert (entry.file.md5 or "") in rows[name]["doc_hash"]


# Files that are not what was published.

MOCO_RULES = ENTRIES["moco_v2_200"].rules
MOCO_FORM = next(form for form in FORMS if "moco_v2_200" in form.names)


def _moco(path: Path, state: State, **changes: Any) -> Path:
    values = {name: getattr(MOCO_FORM, name) for name in MOCO_FORM.__dataclass_fields__}
    return _packed(path, Form(**{**values, **changes}), state)


def _refused(path: Path, rules: KeyRules = MOCO_RULES) -> str:
    with pytest.raises(CheckpointError) as caught:
        _load(path, rules)
    assert caught.value.hint
    return caught.value.message


def test_a_missing_block_is_named(tmp_path: Path) -> None:
    state = {key: t for key, t in FEATURES.items() if not key.startswith("layer3.2.")}
    message = _refused(_moco(tmp_path / "file", state))
    assert "15 of 318 keys missing (layer3.2.conv1.weight" in message
    assert ARCHITECTURE in message


def test_a_wrong_prefix_is_answered_with_what_is_there(tmp_path: Path) -> None:
    message = _refused(_moco(tmp_path / "file", FEATURES, prefix="module.encoder.", beside=()))
    assert "module.encoder_q." in message
    assert "module.encoder. (318)" in message
    inside = {f"stem.{key}": tensor for key, tensor in FEATURES.items()}
    message = _refused(_moco(tmp_path / "file", inside))
    assert "module.encoder_q.stem. (318)" in message


def test_a_prefix_in_the_middle_of_a_key_is_none(tmp_path: Path) -> None:
    prefix = "teacher_backbone."
    path = _moco(tmp_path / "file", FEATURES, prefix=prefix, beside=())
    message = _refused(path, ENTRIES["lightly_dino_100"].rules)
    assert " backbone." in message
    assert "teacher_backbone. (318)" in message


def test_extra_keys_are_named(tmp_path: Path) -> None:
    state = {**FEATURES, "layer5.0.conv1.weight": torch.ones(2)}
    message = _refused(_moco(tmp_path / "file", state))
    assert "1 unexpected (layer5.0.conv1.weight)" in message


def test_another_shape_is_named(tmp_path: Path) -> None:
    state = {**FEATURES, "layer1.0.conv1.weight": torch.ones(4, 2, 1, 1)}
    message = _refused(_moco(tmp_path / "file", state))
    assert "layer1.0.conv1.weight is 4x2x1x1, needed 3x2x1x1" in message


def test_another_container_is_answered_with_what_is_there(tmp_path: Path) -> None:
    message = _refused(_moco(tmp_path / "file", FEATURES, container=("model",)))
    assert "'state_dict'" in message
    assert "keys epoch, args, model" in message
    path = _moco(tmp_path / "file", FEATURES, container=("classy_state_dict", "base_model"))
    message = _refused(path, ENTRIES["vissl_simclr_1000"].rules)
    assert "no dict 'model' under classy_state_dict > base_model" in message


def test_another_architecture_is_said(tmp_path: Path) -> None:
    with torch.device("meta"):
        keys = models.resnet18().state_dict()
    state = {key: torch.ones(3) for key in keys if not key.startswith("fc.")}
    path = _moco(tmp_path / "file", state)
    with pytest.raises(CheckpointError, match="of 318 keys missing") as caught:
        _load(path, MOCO_RULES)
    assert "different architecture" in str(caught.value.hint)


def test_a_classifier_where_none_was_published_is_unexpected(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "file")
    assert "2 unexpected (fc.weight, fc.bias)" in _refused(
        tmp_path / "file", ENTRIES["barlowtwins_1000"].rules
    )


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf<!DOCTYPE html><title>Google Drive - Quota exceeded</title>")
    assert "web page" in _refused(path)
    whole = _moco(path, FEATURES).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in _refused(path)


def test_rules_are_followed_by_name_not_by_replacement(tmp_path: Path) -> None:
    entry: Published = ENTRIES["lightly_byol_100"]
    other = {f"teacher_backbone.{key}": -tensor for key, tensor in FEATURES.items()}
    features = {f"backbone.{key}": tensor for key, tensor in FEATURES.items()}
    torch.save({"state_dict": {**other, **features}}, tmp_path / "file")
    loaded, dropped = _load(tmp_path / "file", entry.rules)
    _assert_same(loaded, FEATURES)
    assert set(dropped) == set(other)
