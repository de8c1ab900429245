"""Arguments in names: each value comes back as it was, and each name has one form."""

from __future__ import annotations

import random
import string

import pytest

from catalog.models.arguments import parse_name, with_arguments, written_name
from survey.errors import CatalogError


def test_values_come_back_as_they_were() -> None:
    generator = random.Random(0)
    texts = [
        "",
        "64",
        "1e3",
        "true",
        "True",
        '"',
        '"5"',
        "a&b=c?d%20",
        "1e999",
        "inf",
        "Größe 3",
        "\n",
    ]
    texts += ["".join(generator.choices(string.printable, k=6)) for _ in range(200)]
    numbers = [0, -3, 10**30, 0.5, 1.0, -1e-7, 1e300, True, False]
    for value in (*texts, *numbers):
        name = written_name("m:f", {"b": 1, "a": value})
        function, arguments = parse_name(name)
        assert (function, arguments) == ("m:f", {"a": value, "b": 1})
        assert type(arguments["a"]) is type(value)
        assert list(arguments) == ["a", "b"]
        assert written_name(function, arguments) == name
        assert name.isprintable()


def test_lists_give_every_combination() -> None:
    names = list(with_arguments("python:m:f?seed=1", {"width": [16, 32], "bias": [True, False]}))
    assert names == [
        f"python:m:f?bias={bias}&seed=1&width={width}"
        for width in (16, 32)
        for bias in ("true", "false")
    ]


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("small:digits_vgg7", {"width": [1]}, "takes no arguments"),
        ("python:m:f?width=1", {"width": [2]}, "already"),
        ("python:m:f", {"width": []}, "no value"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(name, values, named) -> None:
    with pytest.raises(CatalogError, match=named):
        list(with_arguments(name, values))
