"""Errors carry their hint and exit code, also from one process to another."""

from __future__ import annotations

import pickle

import pytest

from survey import errors
from survey.errors import SurveyError, UndefinedScore, UnknownName

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SurveyError)
]


def test_errors_survive_pickling(subtests: pytest.Subtests) -> None:
    for error in [
        SurveyError("what happened", hint="what to do"),
        errors.StoreError("what happened"),
        UnknownName("setting", "micro", ["micro_batch"]),
        UndefinedScore("none", status="out_of_range", raw=-0.1, hint="more images"),
    ]:
        with subtests.test(error=error):
            twin = pickle.loads(pickle.dumps(error))
            assert type(twin) is type(error)
            assert vars(twin) == vars(error)
            assert (str(twin), twin.args) == (str(error), error.args)


def test_exit_codes() -> None:
    codes = {kind.__name__: kind.exit_code for kind in KINDS}
    broken = {"StoreError", "CapacityError", "ClusterError", "UnreachableError"}
    assert {name for name, code in codes.items() if code == 3} == broken
    assert {name for name, code in codes.items() if code == 1} == {"NothingToDraw"}
    assert set(codes.values()) == {1, 2, 3}


def test_of_a_long_unknown_name_its_beginning_is_repeated() -> None:
    error = UnknownName("run", "/ " * 100_000, ["run1"])
    assert error.message.startswith("unknown run '/ / ")
    assert len(error.message) < 250


def test_unknown_names_are_answered(subtests: pytest.Subtests) -> None:
    for name, choices, hint in [
        ("resnet5", ["resnet50", "vgg11"], "did you mean resnet50?"),
        ("zzz", ["resnet50", "vgg11"], "known: resnet50, vgg11"),
        ("zzz", [], None),
        (
            "zzz",
            [f"name{i:02}" for i in range(20)],
            "known: " + ", ".join(f"name{i:02}" for i in range(12)) + ", ...",
        ),
    ]:
        with subtests.test(name=name, choices=choices, hint=hint):
            assert UnknownName("architecture", name, choices).hint == hint
