"""Labels and tags as users write them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from catalog.models.arguments import parse_name
from catalog.tags import RunLabels, checked_label, checked_tags, parsed_tag
from survey.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("lr=0.1", "lr", 0.1),
        ("lr=1e-3", "lr", 0.001),
        ("epoch=30", "epoch", 30),
        ("epoch=30.0", "epoch", 30.0),
        ("frozen=true", "frozen", True),
        ("optimiser=sgd", "optimiser", "sgd"),
        ("note = a=b c ", "note", "a=b c"),
        ('id="007"', "id", "007"),
        ("n=+007", "n", 7),
        ("n=.5E1", "n", 5.0),
        # Python's own numbers take more.
        ("date=2024_05", "date", "2024_05"),
        ("v=1_0.5", "v", "1_0.5"),
        ("n=١٢", "n", "١٢"),
        ("n=1e٢", "n", "1e٢"),
        ('x="nan"', "x", "nan"),
    ],
)
def test_a_tag_is_read_as_what_it_looks_like(text: str, name: str, value: Any) -> None:
    parsed = parsed_tag(text)
    assert parsed == (name, value)
    assert type(parsed[1]) is type(value)
    # So is an argument of a network, but for spaces.
    if " " not in text:
        _, arguments = parse_name(f"nets:make?x={text.partition('=')[2]}")
        assert (arguments["x"], type(arguments["x"])) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        *("lr", "=3", "1st=2", "learning-rate=1", "a b=1", "lr=", "x=\n", f"n={10**30}"),
        *("x=nan", "x=-inf", "x=1e999", f"x={'9' * 5000}", f"x={'y' * 100_000}", "y" * 100_000),
    ],
)
def test_a_tag_that_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="the tag") as caught:
        parsed_tag(text)
    assert len(f"{caught.value} {caught.value.hint}") < 600


@pytest.mark.parametrize(
    "value", [None, [1], {"a": 1}, float("nan"), float("inf"), 2**63, datetime.date(2024, 1, 1)]
)
def test_a_value_is_a_number_a_truth_value_or_a_text(value: Any) -> None:
    with pytest.raises(SettingsError, match="the tag lr is"):
        checked_tags({"lr": value})


@pytest.mark.parametrize("label", ["", "  ", "a\nb", "x" * 201, "\x1b[31m"])
def test_a_label_is_a_line_of_text(label: str) -> None:
    with pytest.raises(SettingsError, match="label"):
        checked_label(label)


def test_the_label_of_a_run_is_made_of_those_of_its_parts() -> None:
    assert RunLabels("VGG", "epoch 30", "photographs").label == "VGG epoch 30 on photographs"
    assert RunLabels(checkpoint="best").label == "best"
    assert RunLabels(tags={"lr": 1}).label is None


def test_a_dataset_alone_names_no_network() -> None:
    assert RunLabels().on("photographs", "vgg7").label == "vgg7 on photographs"
    assert RunLabels(checkpoint="best").on("photographs", "vgg7").label == "best on photographs"
    assert RunLabels("VGG").on("photographs", "vgg7").label == "VGG on photographs"
    assert RunLabels().on(None, "vgg7").label is None
