"""Survey files: what they may say, and what is said of those that cannot be used."""

from pathlib import Path

import pytest

from jobs.planning.definition import parse_definition, read_definition
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


def test_a_file_says_what_to_measure(tmp_path):
    definition = read_definition(written(tmp_path, FILE))
    assert definition.name == "zoo"
    assert [model.name for model in definition.models] == ["small:digits_*", "torchvision:resnet18"]
    assert definition.models[1].checkpoints == ("init:0", "init:1")
    assert definition.models[1].mean == (0.5, 0.5, 0.5)
    assert definition.settings == MeasureSettings(images_per_score=256, shrinkage="none")
    assert definition.base == tmp_path


def test_the_command_line_wins_over_the_file(tmp_path):
    definition = read_definition(written(tmp_path, FILE), {"images_per_score": 64})
    assert definition.settings.images_per_score == 64
    assert definition.settings.shrinkage == "none"


def test_without_a_dataset_it_is_digits(tmp_path):
    definition = read_definition(written(tmp_path, '[[models]]\nname = "small:digits_vgg7"'))
    assert [dataset.name for dataset in definition.datasets] == ["digits"]


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("[[model]]\nname = 'x'", "unknown survey key 'model'", "models"),
        ("[[models]]\nnam = 'x'", "unknown model key 'nam'", "name"),
        ("[[models]]\nname='x'\n[settings]\nmicrobatch=3", "unknown setting", "micro_batch"),
        ("[[models]]\nname='x'\n[settings]\nimages_per_score=1", "images_per_score is 1", ""),
        ("[[models]]\nname='x'\n[settings]\nimages_per_score='9'", "images_per_score is '9'", ""),
        ("[[models]]\nname='x'\n[settings]\nshrinkage='lw'", "shrinkage is 'lw'", ""),
        ("[[models]]\nname = 3", "model key name", ""),
        ("[[models]]\nname='x'\nmean=[1.0]", "mean", ""),
        ("[[models]]\nname='x'\nmean=[nan, 0.0, 0.0]", "mean: Input should be a finite", ""),
        ("[[models]]\nname='x'\nstd=[inf, 1.0, 1.0]", "std: Input should be a finite", ""),
        ("[[models]]\nname='x'\n[settings]\nmicro_batch=2147483648", "at most 2147483647", ""),
        ("name = 'nothing'", "names no model", "[[models]]"),
        ("models = 'x'", "must be a list of tables", ""),
        ("[[models]", "cannot be read as TOML", ""),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, text, words, hint):
    with pytest.raises((SettingsError, UnknownName)) as caught:
        read_definition(written(tmp_path, text))
    assert words in str(caught.value)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "values",
    [
        {"models": [{"name": "x", "checkpoints": ["file:\udcff.pt"]}]},
        {"models": [{"name": "x"}], "datasets": [{"name": "folder:\udcff"}]},
    ],
)
def test_names_that_are_no_text_are_refused(values):
    with pytest.raises(SettingsError, match=r"udcff.*must be text in UTF-8") as caught:
        parse_definition(values, "test", Path())
    assert caught.value.hint


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match="there is no survey file"):
        read_definition(tmp_path / "none.toml")


def test_what_is_recorded_can_be_read_again():
    definition = parse_definition({"models": [{"name": "small:digits_vgg7"}]}, "x", Path())
    again = parse_definition(definition.to_dict(), "x", Path())
    assert again == definition


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("80.86", r"expect_top1: .* less than or equal to 1 \(got 80.86\)"),
        ("{ cifar10 = 3 }", r"expect_top1: .* less than or equal to 1 \(got 3\)"),
        ('"much"', r"expect_top1: .* valid number"),
    ],
)
def test_an_accuracy_is_a_fraction(tmp_path, value, words):
    text = f'[[models]]\nname = "small:*"\nexpect_top1 = {value}\n'
    with pytest.raises(SettingsError, match=words):
        read_definition(written(tmp_path, text))
