"""Selections, labels and provenance: which runs, what they are called, where numbers come from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.data.counts import runs_hash
from analysis.data.model_names import labels
from analysis.data.provenance import Provenance, carried, provenance_of
from analysis.data.selection import Selection
from analysis.data.selection_fields import member_of
from analysis.data.short_names import short_names
from catalog.arrow_arrays import table_of
from catalog.store.arrow_rows import RUN_SCHEMA
from survey import __version__
from survey.errors import SettingsError

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def row(run_id: str, architecture: str = "resnet18", hour: int | None = 0, **values: Any) -> Any:
    basics = {
        "run_id": run_id,
        "source": "torchvision",
        "architecture": architecture,
        "checkpoint": f"torchvision:{architecture}/IMAGENET1K_V1",
        "dataset": "digits",
        "pooling": "mean",
        "ridge": "relative",
        "family": "ResNet",
        "family_group": "residual",
        "status": "done",
        "finished_at": None if hour is None else NOON + timedelta(hours=hour),
    }
    return {**basics, **values}


SCHEMA = pa.schema([RUN_SCHEMA.field(name) for name in row("a")])

ZOO = [
    row("a"),
    row("b", "resnet50"),
    row("c", "vgg11", family="VGG", family_group="pre-residual"),
    row("d", "vit_b_16", family="ViT", family_group="ViT", dataset="imagenet"),
    row("e", "digits_vgg7", source="small", checkpoint="bundled", family="Digits VGG"),
    row("f", "strange", source="python", checkpoint="init:0", family=None, family_group=None),
]


def choose(runs: list[Any], **fields: Any) -> list[str]:
    selection = Selection(**fields)
    fitting = table_of(selection.fitting(runs), SCHEMA)
    return [str(run_id) for run_id in selection.choose(fitting)["run_id"]]


def chosen(**fields: Any) -> str:
    return "".join(choose(ZOO, **fields))


def test_every_field_must_fit_and_one_glob_of_it(subtests: pytest.Subtests) -> None:
    for fields, expected in [
        ({}, "abcde"),
        ({"untrained": True}, "abcdef"),
        ({"models": "*@init:?"}, "f"),
        ({"sources": "python"}, "f"),
        ({"models": "resnet*"}, "ab"),
        ({"models": ("resnet18", "vgg11")}, "ac"),
        ({"models": "torchvision:*"}, "abcd"),
        ({"models": "*@bundled"}, "e"),
        ({"models": "torchvision:vgg11@*IMAGENET1K_V1"}, "c"),
        ({"families": "resnet"}, "ab"),
        ({"families": "*VGG"}, "ce"),
        ({"groups": "pre-residual"}, "c"),
        ({"sources": "small"}, "e"),
        ({"checkpoints": "init:*"}, "f"),
        ({"datasets": "imagenet"}, "d"),
        ({"poolings": "mean"}, "abcde"),
        ({"sets": "paper"}, "abcd"),
        ({"sets": "paper-ssl"}, "b"),
        ({"sets": ("paper",), "datasets": "digits", "families": ("ViT", "VGG")}, "c"),
    ]:
        with subtests.test(fields=fields, expected=expected):
            assert chosen(**fields) == expected


def test_what_fits_nothing_is_refused(subtests: pytest.Subtests) -> None:
    for fields, message, hint in [
        ({"models": "resnt18"}, "no run fits the model 'resnt18'", "did you mean resnet18"),
        ({"models": "convnext*"}, "no run fits the model", "measured: "),
        ({"models": "paper"}, "no run fits the model 'paper'", "option set"),
        ({"families": "vit2"}, "no run fits the family 'vit2'", "did you mean ViT"),
        ({"sets": "papr"}, "unknown set 'papr'", "did you mean paper"),
        ({"models": ("resnet18", "nothing")}, "'nothing'", None),
        ({"models": "resnet18", "datasets": "imagenet"}, "none of the 6 runs", "no run fits all"),
    ]:
        with subtests.test(fields=fields, message=message, hint=hint):
            with pytest.raises(SettingsError, match=message) as caught:
                chosen(**fields)
            assert hint is None or hint in str(caught.value.hint)


OF_FILES = [
    row(
        f"{architecture}-{epoch}-{folder}",
        architecture,
        checkpoint=f"file:/exp/{architecture}/epoch_{epoch}.pth",
        dataset=f"folder:/data/{folder}",
    )
    for architecture in ("resnet18", "vgg11")
    for epoch in (10, 20)
    for folder in ("heldout", "seen")
]


def ids_of(runs: list[Any], **fields: Any) -> set[str]:
    return set(choose(runs, **fields))


def test_names_are_taken_as_tables_print_them(subtests: pytest.Subtests) -> None:
    resnets = [run for run in OF_FILES if run["architecture"] == "resnet18"]
    repeated = [*resnets, {**resnets[0], "run_id": "again", "finished_at": NOON}]
    for id_, name in labels(resnets).items():
        with subtests.test(name=name):
            assert ids_of(resnets, models=name.upper()) == {id_}
            of_repeats = {id_, "again"} if id_ == resnets[0]["run_id"] else {id_}
            assert ids_of(repeated, models=name, newest=False) == of_repeats
    for fields, expected in [
        ({"datasets": "heldout"}, {"resnet18-10-heldout", "resnet18-20-heldout"}),
        ({"datasets": "held*"}, {"resnet18-10-heldout", "resnet18-20-heldout"}),
        ({"checkpoints": "epoch 10"}, {"resnet18-10-heldout", "resnet18-10-seen"}),
        ({"checkpoints": "epoch_10.pth"}, {"resnet18-10-heldout", "resnet18-10-seen"}),
        ({"checkpoints": "epoch_10", "datasets": "seen"}, {"resnet18-10-seen"}),
    ]:
        with subtests.test(fields=fields):
            assert ids_of(resnets, **fields) == expected


def test_a_printed_name_of_several_is_refused_with_their_names() -> None:
    with pytest.raises(SettingsError, match="2 checkpoints go by 'epoch_10'") as caught:
        ids_of(OF_FILES, checkpoints="epoch_10")
    for architecture in ("resnet18", "vgg11"):
        assert f"file:/exp/{architecture}/epoch_10.pth" in caught.value.message
    assert "'*epoch_10*'" in str(caught.value.hint)
    assert len(ids_of(OF_FILES, checkpoints="*epoch_10*")) == 4


def test_words_of_a_printed_name_do_where_no_other_has_them() -> None:
    runs = [
        row(f"{lr}-{epoch}", checkpoint=f"file:/{lr}/epoch_{epoch}.pth")
        for lr, epoch in (("lr1", 10), ("lr1", 20), ("lr2", 10))
    ]
    # All of them are printed as "lr1 epoch 10", those of lr1 alone as "epoch 10".
    assert ids_of(runs, checkpoints="Epoch 20") == {"lr1-20"}
    assert ids_of(runs, models="resnet18@lr2") == {"lr2-10"}
    for words in ("epoch 10", "lr1"):
        with pytest.raises(SettingsError, match=f"2 checkpoints go by '{words}'"):
            ids_of(runs, checkpoints=words)
    with pytest.raises(SettingsError, match="no run fits"):
        ids_of(runs, checkpoints="poch 20")


def test_a_given_label_names_a_model() -> None:
    runs = [row("a", label="mine"), row("b", label=None)]
    assert ids_of(runs, models="mine") == {"a"}


def test_a_set_that_was_not_measured_says_so() -> None:
    with pytest.raises(SettingsError, match="no run fits the set 'paper'"):
        choose(ZOO[4:], sets="paper")


def test_no_runs_are_no_error_until_something_is_asked_for() -> None:
    assert choose([]) == []
    with pytest.raises(SettingsError) as caught:
        choose([], models="a")
    assert caught.value.hint == "nothing is measured yet"


def test_of_repeats_the_newest_finished_one_counts() -> None:
    runs = [
        row("old", hour=1),
        row("new", hour=3),
        row("failed", hour=9, status="failed"),
        row("running", hour=None, status="running"),
        row("sum", hour=0, pooling="sum"),
        row("only failed", "vgg11", hour=2, status="failed"),
        row("going on", "vgg11", hour=None, status="running"),
    ]
    newest = choose(runs)
    assert newest == ["new", "sum", "only failed"]
    assert choose(runs, newest=False) == [run["run_id"] for run in runs]
    assert choose(runs[::-1]) == newest[::-1]


def test_words_are_a_line_and_equal_selections_say_the_same() -> None:
    assert Selection().describe() == "all models"
    assert Selection(models="a*", families=["b", "c"]).describe() == "model a*, family b or c"
    assert Selection(newest=False).describe() == "all models, repeats too"
    assert Selection(models="a") == Selection(models=("a",))
    assert hash(Selection(models=["a"])) == hash(Selection(models="a"))


def test_members_go_by_the_name_that_their_run_has() -> None:
    full = "torchvision:resnet50/IMAGENET1K_V1"
    assert member_of("paper", row("a", "resnet50")) == full
    assert member_of("paper", row("a", "resnet50", checkpoint="IMAGENET1K_V1")) == full
    assert member_of("paper", row("a", "resnet50", checkpoint="init:0")) is None
    assert member_of("paper-ssl", row("a", "resnet50", checkpoint="ssl:swav_800"))


def test_labels_are_as_short_as_they_can_be() -> None:
    runs = [
        row("a"),
        row("b", "resnet50"),
        row("c", "resnet50", checkpoint="ssl:swav_800"),
        row("d", "vgg11", dataset="digits"),
        row("e", "vgg11", dataset="cifar10"),
        row("f", "vit_b_16", checkpoint="init:0"),
        row("g", "vit_b_16", checkpoint="init:0", source="timm"),
        row("abcdefghij", "swin_t"),
        row("bcdefghijk", "swin_t"),
        row("0123456789ab", "swin_s"),
        row("0123456789cd", "swin_s"),
    ]
    assert list(labels(runs).values()) == [
        "resnet18",
        "resnet50@IMAGENET1K_V1",
        "resnet50@ssl:swav_800",
        "vgg11 on digits",
        "vgg11 on cifar10",
        "torchvision:vit_b_16",
        "timm:vit_b_16",
        "swin_t abcdefgh",
        "swin_t bcdefghi",
        "swin_s 0123456789a",
        "swin_s 0123456789c",
    ]


def test_two_things_that_differ_are_both_said() -> None:
    runs = [row(f"{c}{d}", checkpoint=c, dataset=d) for c in "xy" for d in "uv"]
    assert labels(runs)["xv"] == "resnet18@x on v"


def test_a_label_of_the_users_wins() -> None:
    runs = [row("a", dataset="cifar10"), row("b"), row("c"), row("d", "vgg11"), row("e", "vgg13")]
    given = ["mine", "mine", None, "best", "best"]
    labelled = [run | {"label": each} for run, each in zip(runs, given, strict=True)]
    assert list(labels(labelled).values()) == [
        "mine on cifar10",
        "mine on digits",
        "resnet18",
        "vgg11 best",
        "vgg13 best",
    ]


def test_a_label_of_the_users_that_reads_like_a_composed_one_is_kept_apart() -> None:
    runs = [row(each, checkpoint=each) for each in ("a", "b")]
    runs += [row("c", "vgg11") | {"label": "resnet18@a"}, row("d", "vgg11") | {"label": "X c"}]
    runs += [row("e", "vgg13") | {"label": "resnet18@a c"}]
    names = list(labels(runs).values())
    assert len(set(names)) == 5
    assert names[1] == "resnet18@b"
    assert names[3] == "X c"


TRAININGS = "file:/data/exp/resnet20_lr{}_wd5e-4_long/seed0/checkpoints/epoch_{:03d}.pth"


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ([TRAININGS.format(0.1, e) for e in (5, 10)], ["epoch 5", "epoch 10"]),
        (
            [TRAININGS.format(lr, e) for lr in (0.1, 0.01) for e in (5, 10)],
            ["lr0.1 epoch 5", "lr0.1 epoch 10", "lr0.01 epoch 5", "lr0.01 epoch 10"],
        ),
        (["file:a/epoch=29-step=1000.ckpt", "file:a/last.ckpt"], ["epoch 29", "last"]),
        (["file:a/seed_0/ck_1.pth", "file:a/seed_1/ck_1.pth"], ["seed_0", "seed_1"]),
        (["file:a/wd1e-4.pth", "file:a/wd5e-4.pth"], ["wd1e-4", "wd5e-4"]),
        (["file:a/w.pth", "file:a/w.safetensors"], ["w.pth", "w.safetensors"]),
        (["file:model_best.pth.tar"], ["model_best"]),
        (["file:x/bundled.pth", "bundled", "init:0"], ["bundled.pth", "bundled", "init:0"]),
        (["folder:/data/cifar10-sample[:512]"], ["cifar10-sample[:512]"]),
        (["folder:/a/cats/val", "folder:/a/dogs/val", "digits"], ["cats", "dogs", "digits"]),
        (["ssl:swav_800", "torchvision:resnet50/IMAGENET1K_V1"], None),
    ],
)
def test_files_go_by_what_tells_them_apart(names: list[str], short: list[str] | None) -> None:
    named = short_names(names)
    assert [named[name] for name in names] == (short or names)


@given(st.lists(st.text("ab01_-./ep", min_size=1, max_size=9), max_size=6))
def test_short_names_are_unique_whatever_the_files(drawn: list[str]) -> None:
    names = {*(f"file:{each}" for each in drawn), "a", "b"}
    short = short_names(names)
    assert short.keys() == names
    assert len(set(short.values())) == len(short)


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 5), min_size=1, max_size=12))
def test_labels_are_unique_whatever_the_runs(drawn: list[tuple[str, ...]]) -> None:
    names = ("architecture", "source", "checkpoint", "dataset", "pooling")
    runs = [
        {**dict(zip(names, each, strict=True)), "run_id": f"run{place:05d}"}
        for place, each in enumerate(drawn)
    ]
    named = labels(runs)
    assert len(set(named.values())) == len(runs) == len(named)


def frame(ids: str, **attrs: Any) -> pd.DataFrame:
    made = pd.DataFrame({"run_id": list(ids), "affinity": 0.5})
    made.attrs = attrs
    return made


def test_a_hash_is_that_of_the_set_of_runs() -> None:
    assert runs_hash("abc") == runs_hash("cabba") != runs_hash("ab")
    assert len(runs_hash([])) == 12
    # Independent: printf 'a\nb' | sha256sum
    assert runs_hash("ba") == "7e18f737311b"


def test_a_caption_holds_filter_runs_hash_and_versions() -> None:
    made = frame("ab", selection="model a*", measuring_versions=[2, 3])
    provenance = provenance_of(made)
    assert provenance == Provenance("model a*", 2, runs_hash("ab"), __version__, (2, 3))
    for part in ("model a*", "2 runs", runs_hash("ab"), __version__, "2 and 3"):
        assert part in provenance.caption()
    assert provenance_of(made[made["run_id"] == "a"]).runs == 1
    assert provenance_of(frame("")).caption().startswith("runs as given; 0 runs")


def test_a_result_carries_what_it_was_made_from() -> None:
    made = frame("abc", selection="model a*", home="h", measuring_versions=[2])
    result = carried(pd.DataFrame({"family": ["x"]}), made)
    assert provenance_of(result) == provenance_of(made)
    assert provenance_of(carried(pd.DataFrame({"n": [1]}), result)) == provenance_of(made)
    # What is filtered afterwards was still made from all of them.
    assert provenance_of(result[:0]).runs == 3
    both = carried(pd.DataFrame(), made, frame("cd", selection="other"))
    assert (provenance_of(both).runs, provenance_of(both).selection) == (4, "model a*")


def test_pairs_count_both_their_runs() -> None:
    pairs = pd.DataFrame({"run_id": ["a", "a"], "other_run_id": ["b", "c"]})
    assert provenance_of(pairs).runs_hash == runs_hash("abc")
