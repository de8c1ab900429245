"""Settings refuse what they cannot mean and go through plain values unchanged."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

import survey
from survey import MeasureSettings, SettingsError, UnknownName


def test_values_that_are_not_allowed_are_named(subtests: pytest.Subtests) -> None:
    for values, message in [
        ({"images_per_score": 1}, "images_per_score is 1, must be .* at least 2"),
        ({"images_per_score": 0}, "at least 2"),
        ({"images_per_score": 64.0}, "64.0"),
        ({"images_per_score": True}, "True"),
        ({"images_per_score": "64"}, "'64'"),
        ({"micro_batch": 0}, "micro_batch is 0, must be .* at least 1"),
        ({"shrinkage": "lw"}, "'lw', must be one of ledoit-wolf, none"),
        ({"shrinkage": None}, "None"),
        ({"ridge": "big"}, "absolute, relative"),
        ({"pooling": "max"}, "pooling is 'max'.* public_code"),
        ({"pooling": None}, "pooling is None"),
    ]:
        with (
            subtests.test(values=values, message=message),
            pytest.raises(SettingsError, match=message),
        ):
            MeasureSettings(**values)


def test_one_image_a_score_gets_a_hint() -> None:
    with pytest.raises(SettingsError) as caught:
        MeasureSettings(images_per_score=1)
    assert "512" in str(caught.value.hint)


def test_settings_go_through_plain_values() -> None:
    settings = MeasureSettings(images_per_score=128, shrinkage="none", pooling="flatten")
    assert MeasureSettings.from_dict(settings.to_dict()) == settings
    assert list(settings.to_dict()) == [field.name for field in dataclasses.fields(settings)]
    assert MeasureSettings.from_dict({}) == MeasureSettings(
        512, "auto", "ledoit-wolf", "relative", "mean"
    )


def test_a_pass_has_more_images_on_an_accelerator_unless_their_number_is_set() -> None:
    for settings, sizes in ((MeasureSettings(), (64, 512)), (MeasureSettings(512, 32), (32, 32))):
        assert tuple(settings.pass_images(accelerator=each) for each in (False, True)) == sizes


def test_a_record_without_a_ridge_is_of_the_absolute_one() -> None:
    assert MeasureSettings.from_record({}) == MeasureSettings(ridge="absolute")
    for settings in (MeasureSettings(), MeasureSettings(64, ridge="absolute", precision=0.01)):
        assert MeasureSettings.from_record(settings.to_dict()) == settings


def test_a_mistyped_name_is_answered_with_the_right_one() -> None:
    with pytest.raises(UnknownName, match="'images_per_scores'") as caught:
        MeasureSettings.from_dict({"images_per_scores": 128})
    assert caught.value.hint == "did you mean images_per_score?"


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        MeasureSettings().micro_batch = 3  # type: ignore[misc]


def test_everything_exported_exists_and_nothing_else() -> None:
    assert sorted(survey.__all__) == dir(survey)
    assert all(getattr(survey, name) is not None for name in survey.__all__)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        survey.nothing_like_it  # noqa: B018


def test_importing_survey_imports_no_torch() -> None:
    code = (
        "import sys, survey; survey.MeasureSettings(); "
        "assert not {'torch', 'numpy', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
