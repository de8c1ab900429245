"""Survey files: what they may hold, and how those that cannot be used are refused."""

import json
from pathlib import Path

import pytest

from catalog.tags import LONGEST
from jobs.planning.definition import parse_definition, read_definition
from jobs.planning.targets import targets
from jobs.schedules.cron import recorded_definition
from survey import MeasureSettings, SettingsError, UnknownName

FILE = """
name = "zoo"
[[models]]
name = "small:digits_*"
[[models]]
name = "torchvision:resnet18"
checkpoints = ["init:0", "init:1"]
mean = [0.5, 0.5, 0.5]
[[datasets]]
name = "digits"
[settings]
images_per_score = 256
shrinkage = "none"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "zoo.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_names_what_to_measure(tmp_path):
    definition = read_definition(written(tmp_path, FILE))
    assert definition.name == "zoo"
    assert [model.name for model in definition.models] == ["small:digits_*", "torchvision:resnet18"]
    assert [each.ref for each in definition.models[1].checkpoints] == ["init:0", "init:1"]
    assert definition.models[1].mean == (0.5, 0.5, 0.5)
    assert definition.settings == MeasureSettings(images_per_score=256, shrinkage="none")
    assert definition.base == tmp_path


def test_a_byte_order_mark_is_no_key(tmp_path):
    path = tmp_path / "zoo.toml"
    path.write_text(FILE, encoding="utf-8-sig")
    assert read_definition(path).name == "zoo"


def test_the_command_line_wins_over_the_file(tmp_path):
    definition = read_definition(written(tmp_path, FILE), {"images_per_score": 64})
    assert definition.settings.images_per_score == 64
    assert definition.settings.shrinkage == "none"


def test_metrics_are_named_in_a_list_or_a_text(tmp_path):
    path = written(tmp_path, FILE + 'metrics = ["cka", "affinity"]')
    definition = read_definition(path)
    assert definition.settings.metrics == ("affinity", "cka")
    stored = recorded_definition(json.loads(json.dumps(definition.to_dict())), "zoo", tmp_path)
    assert stored.settings == definition.settings
    assert read_definition(path, {"metrics": "affinity"}).settings.metrics == ("affinity",)
    with pytest.raises(UnknownName, match="'speed'"):
        read_definition(path, {"metrics": "affinity,speed"})


@pytest.mark.parametrize("datasets", ["", "datasets = []\n"])
def test_without_a_dataset_it_is_digits(tmp_path, datasets):
    text = f'{datasets}[[models]]\nname = "small:digits_vgg7"\ncheckpoints = "init:0"'
    definition = read_definition(written(tmp_path, text))
    assert [dataset.name for dataset in definition.datasets] == ["digits"]
    assert [each.ref for each in definition.models[0].checkpoints] == ["init:0"]


@pytest.mark.parametrize(
    ("text", "named", "hint"),
    [
        ("[[model]]\nname = 'x'", "survey key 'model'", "models"),
        ("dataset = []\n[[models]]\nname='x'", "survey key 'dataset'", "datasets"),
        ("[[models]]\nnam = 'x'", "model key 'nam'", "name"),
        ("[[models]]\nname='x'\n[settings]\nmicrobatch=3", "setting 'microbatch'", "micro_batch"),
        ("[[models]]\nname='x'\n[settings]\nlimit=3", "setting 'limit'", "[[datasets]]"),
        ("[[models]]\nname='x'\n[[datasets]]\nname='d'\npooling='pre'", "'pooling'", "[settings]"),
        ("[[models]]\nname='x'\n[settings]\nremeasure=['torch']", "'remeasure'", "at the top"),
        ("[[models]]\nname='x'\n[settings]\nimages_per_score=1", "images_per_score is 1", ""),
        ("[[models]]\nname='x'\n[settings]\nimages_per_score='9'", "images_per_score is '9'", ""),
        ("[[models]]\nname='x'\n[settings]\nshrinkage='lw'", "shrinkage is 'lw'", ""),
        ("[[models]]\nname='x'\n[[datasets]]\nname='d'\nlimits=1", "key 'limits'", "limit"),
        ("base='/'\n[[models]]\nname='x'", "survey key 'base'", ""),
        ("[[models]]\nname = 3", "models.name:", ""),
        ("[[models]]\nname='x'\ncheckpoints=[1]", "models.checkpoints:", ""),
        ("[[models]]\nname='x'\nmean=[1.0, 0.5, 0.5, 0.5]", "models.mean:", ""),
        ("[[models]]\nname='x'\nmean=[true, 0.0, 0.0]", "models.mean:", ""),
        ("[[models]]\nname='x'\nmean=[nan, 0.0, 0.0]", "models.mean:", ""),
        ("[[models]]\nname='x'\nstd=[inf, 1.0, 1.0]", "models.std:", ""),
        ("[[models]]\nname='x'\n[[datasets]]\nname='d'\nlimit=0", "datasets.limit:", ""),
        ("[[models]]\nname='x'\n[[datasets]]\nname='d'\nlimit=true", "datasets.limit:", ""),
        ("[[models]]\nname='x'\n[[datasets]]\nname='d'\nlimit='10'", "datasets.limit:", ""),
        ("[[models]]\nname='x'\n[[datasets]]\nname='d'\nstratified='yes'", "stratified:", ""),
        ("[[models]]\nname='x'\n[[datasets]]\nname='d'\norder_seed='3'", "order_seed:", ""),
        ("[[models]]\nname='x'\nexpect_top1=true", "models.expect_top1:", ""),
        ("name = { a = 1 }\n[[models]]\nname='x'", "name:", ""),
        ("[[models]]\nname='x'\nexpect_top1=80.86", "(got 80.86)", ""),
        ("[[models]]\nname='x'\nexpect_top1={ cifar10 = 3 }", "(got 3)", ""),
        ("[[models]]\nname='x'\nexpect_top1={ digit = 0.3 }", "'digit'", "digits"),
        ("[[models]]\nname='x'\nexpect_top1='much'", "models.expect_top1:", ""),
        ("settings=3\n[[models]]\nname='x'", "settings is 3", ""),
        ("remeasure=[3]\n[[models]]\nname='x'", "remeasure:", ""),
        ("[[models]]\nname='x'\n[settings]\nmicro_batch=2147483648", "2147483647", ""),
        ("name = 'nothing'", "model", "[[models]]"),
        ("models = []", "model", "[[models]]"),
        ("models = 'x'", "models:", ""),
        ("[[models]", "zoo.toml", ""),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, text, named, hint):
    with pytest.raises((SettingsError, UnknownName)) as caught:
        read_definition(written(tmp_path, text))
    assert named in str(caught.value)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "values",
    [
        {"models": [{"name": "x", "checkpoints": ["file:\udcff.pt"]}]},
        {"models": [{"name": "x"}], "datasets": [{"name": "folder:\udcff"}]},
    ],
)
def test_names_that_are_no_text_are_refused(values):
    with pytest.raises(SettingsError, match="udcff") as caught:
        parse_definition(values, "test", Path())
    assert caught.value.hint


def test_a_name_has_a_limit_where_it_is_declared(tmp_path):
    values = {"models": [{"name": "small:digits_vgg7"}]}
    assert parse_definition({**values, "name": "a" * LONGEST}, "x", Path()).name == "a" * LONGEST
    long = "a" * 300_000
    with pytest.raises(SettingsError, match="300,000") as caught:
        parse_definition({**values, "name": long}, "x", Path())
    assert len(caught.value.message) < 250
    # Records of before are read.
    assert recorded_definition({**values, "name": long}, "x", tmp_path).name == long
    assert recorded_definition(values, long, tmp_path).name == long


def test_whole_numbers_are_numbers(tmp_path):
    text = (
        "[[models]]\nname='x'\nmean=[0, 0, 0]\nexpect_top1=1\n[[datasets]]\nname='digits'\nlimit=9"
    )
    definition = read_definition(written(tmp_path, text))
    assert (definition.models[0].mean, definition.models[0].expect_top1) == ((0.0, 0.0, 0.0), 1.0)
    assert definition.datasets[0].limit == 9


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.toml"):
        read_definition(tmp_path / "none.toml")


def test_what_is_recorded_can_be_read_again():
    definition = parse_definition({"models": [{"name": "small:digits_vgg7"}]}, "x", Path())
    values = definition.to_dict()
    assert list(values) == ["models", "datasets", "settings"]
    assert parse_definition(values, "x", Path()) == definition
    chosen = parse_definition({**values, "remeasure": ["numpy", "torch"]}, "x", Path())
    assert chosen.to_dict() == {**values, "remeasure": ["torch", "numpy"]}


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{b = " * 5_000 + "1" + "}" * 5_000,
        # tomllib takes memory that grows with the square of a key's parts.
        ".".join(["a"] * 3_000) + " = 1",
        "[" + " . ".join(['"a"', "'b'"] * 1_000) + "]",
        "a = " + "1" * 10_000,
        "# " + "x" * 2**22,
    ],
    ids=["lists", "tables", "key", "quoted key", "number", "size"],
)
def test_a_file_nested_deep_or_of_any_size_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "survey.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=str(path)):
        read_definition(path)


LABELLED = """
tags = { seed = 0, lr = 0.1 }
[[models]]
name = "small:digits_vgg7"
label = "VGG"
tags = { lr = 0.5, optimiser = "sgd" }
checkpoints = ["init:0", { ref = "init:1", label = "first", tags = { lr = 1, frozen = true } }]
[[models]]
name = "small:digits_vgg9"
[[datasets]]
name = "digits"
label = "Digits"
"""


def test_what_is_said_of_weights_wins_over_the_model_and_that_over_the_survey(tmp_path):
    definition = read_definition(written(tmp_path, LABELLED))
    labels = [each.labels for each in targets(definition)]
    assert [(each.model, each.checkpoint) for each in labels] == [
        ("VGG", None),
        ("VGG", "first"),
        (None, None),
    ]
    assert [dict(each.tags) for each in labels] == [
        {"seed": 0, "lr": 0.5, "optimiser": "sgd"},
        {"seed": 0, "lr": 1, "optimiser": "sgd", "frozen": True},
        {"seed": 0, "lr": 0.1},
    ]
    assert definition.datasets[0].label == "Digits"


def test_labels_and_tags_are_recorded_and_read_again(tmp_path):
    definition = read_definition(written(tmp_path, LABELLED))
    values = definition.to_dict()
    assert values["models"][0]["checkpoints"][0] == "init:0"
    again = parse_definition(values, "zoo", tmp_path, origin=definition.origin)
    assert again == definition
    assert "tags" not in values["models"][1]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("label=''", "label"),
        ("label=3", "models.label"),
        ("tags=3", "models.tags: Input should be a valid table"),
        ("tags={ a-b = 3 }", "'a-b'"),
        ("tags={ a = [1] }", "tag a is [1]"),
        ("tags={ a = nan }", "tag a is nan"),
        ("tags={ a = 2024-01-01 }", "tag a is"),
        ("checkpoints=[{ ref='init:0', lable='x' }]", "checkpoint key 'lable'"),
        ("checkpoints=[{ label='x' }]", "models.checkpoints.ref"),
    ],
)
def test_labels_and_tags_that_cannot_be_kept_are_refused(tmp_path, text, named):
    with pytest.raises((SettingsError, UnknownName)) as caught:
        read_definition(written(tmp_path, f"[[models]]\nname = 'small:digits_vgg7'\n{text}"))
    assert named in str(caught.value)


def test_several_models_do_not_share_a_label():
    values = {"models": [{"name": "small:digits_*", "label": "all"}]}
    with pytest.raises(SettingsError, match="8 models"):
        targets(parse_definition(values, "x", Path()))


def test_names_with_many_dots_are_no_long_keys(tmp_path: Path) -> None:
    path = tmp_path / "survey.toml"
    names = [f"file:run.{n}/v1.2.3/model.best.pth" for n in range(100)]
    path.write_text(f'[[models]]\nname = "small:digits_vgg7"\ncheckpoints = {names!r}\n')
    assert [each.ref for each in read_definition(path).models[0].checkpoints] == names


def test_arguments_give_a_model_each(tmp_path):
    (tmp_path / "x.toml").write_text(
        '[[models]]\nname = "python:nets:make"\ncheckpoints = ["built", "file:a.pth"]\n'
        "args = { width = [16, 32], deep = true, rate = 1.0 }\n"
    )
    definition = read_definition(tmp_path / "x.toml")
    names = [f"python:nets:make?deep=true&rate=1.0&width={width}" for width in (16, 32)]
    assert [choice.name for choice in definition.models] == names
    for choice in definition.models:
        assert [each.ref for each in choice.checkpoints] == ["built", "file:a.pth"]
    again = parse_definition(definition.to_dict(), "x", tmp_path)
    assert [choice.name for choice in again.models] == names
    with pytest.raises(SettingsError, match="args"):
        parse_definition(
            {"models": [{"name": "python:nets:make", "args": {"width": [[1]]}}]}, "x", tmp_path
        )


def test_models_of_several_arguments_do_not_share_a_label():
    choice = {"name": "python:nets:make", "args": {"width": [16, 32]}, "label": "Net"}
    with pytest.raises(SettingsError, match="2 models"):
        parse_definition({"models": [choice]}, "x", Path())
