"""Estimates: history first, then arithmetic, with an honest range."""

from jobs.estimate import FROM_DEFAULT, FROM_HISTORY, FROM_RATE, History, Measured, estimate

RESNET = Measured("torchvision:resnet18", 1.8, 512, 20.0)


def test_history_of_the_same_architecture_scales_with_images():
    guess = estimate("torchvision:resnet18", 1.8, 1024, History([RESNET]))
    assert guess.seconds == 40.0
    assert guess.factor == FROM_HISTORY


def test_other_architectures_give_a_rate():
    guess = estimate("torchvision:resnet50", 3.6, 512, History([RESNET]))
    assert guess.seconds == 40.0
    assert guess.factor == FROM_RATE


def test_without_history_the_range_is_wide():
    guess = estimate("torchvision:resnet50", 4.0, 100, History())
    assert guess.seconds == 40.0
    assert guess.factor == FROM_DEFAULT


def test_runs_that_say_nothing_are_left_out():
    assert estimate("a", 1.0, 10, History([Measured("a", 1.0, 0, 0.0)])).factor == FROM_DEFAULT
