"""Estimates: history first, then arithmetic, with an honest range."""

import dataclasses
from pathlib import Path

import pytest

from catalog.models import consent
from catalog.models.base import InputTransform
from catalog.models.cost_table import counted
from catalog.store.records import RunState
from jobs.planning.definition import parse_definition
from jobs.planning.estimate import (
    AFFINITY_SECONDS,
    BARE_SECONDS,
    CORE_SECONDS,
    DEFAULT_GFLOPS,
    DEFAULT_SECONDS,
    FROM_DEFAULT,
    FROM_HISTORY,
    FROM_RATE,
    GPU_SECONDS,
    MEASURE_SECONDS,
    History,
    Measured,
    cores_of_gpu,
    estimate,
)
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job, ModelFacts
from jobs.planning.plan import make_plan
from survey import MeasureSettings
from survey.network_measures.nonlinearity_coefficient import IMAGES, MEASURE, PASSES
from tests.jobs.jobs import job

RESNET = Measured("torchvision:resnet18", 1.8, 512, 20.0)

#: Billions of multiply-accumulates of a resnet50 on one image.
GFLOPS = counted("torchvision", "resnet50").gflops


def of(name: str, images: int) -> Job:
    """Return a job of a network of torchvision, with 50 sites and 256 images in a score."""
    return dataclasses.replace(
        job(),
        source="torchvision",
        architecture=name,
        images=images,
        transform=InputTransform(224, 224),
        facts=ModelFacts(depth=50),
        settings=MeasureSettings(256),
    )


def test_history_of_the_same_architecture_scales_with_images():
    guess = estimate(of("resnet18", 1024), {}, History([RESNET]))
    assert guess.seconds == 40.0
    assert guess.factor == FROM_HISTORY


def test_what_is_measured_already_takes_no_time():
    one = of("resnet18", 1024)
    done = {one.run_id: RunState(images=500, skipped_images=12)}
    assert estimate(one, done, History([RESNET])).seconds == 20.0


def test_other_architectures_give_a_rate():
    guess = estimate(of("resnet50", 512), {}, History([RESNET]))
    # It had no site, and says nothing of scores.
    scores = DEFAULT_SECONDS[1] * 50 * (512 // 256)
    assert guess.seconds == pytest.approx(20.0 * GFLOPS / 1.8 + scores, rel=0.02)
    assert guess.factor == FROM_RATE


def test_forward_passes_and_scores_have_rates_of_their_own():
    """Small networks, whose time goes into scores, say nothing of how long large ones run."""
    runs = [
        Measured("a", 0.01, 1000, 0.02 * 10 + 0.05 * 40, scores=40),
        Measured("b", 0.02, 1000, 0.02 * 20 + 0.05 * 100, scores=100),
        Measured("c", 4.0, 1000, 0.02 * 4000 + 0.05 * 90, scores=90),
    ]
    assert History(runs).unit_seconds == pytest.approx((0.02, 0.05), rel=0.1)
    assert History(runs * 20).unit_seconds == pytest.approx((0.02, 0.05), rel=0.01)
    guess = estimate(of("resnet50", 2560), {}, History(runs * 20))
    assert guess.seconds == pytest.approx(0.02 * GFLOPS * 2560 + 0.05 * 50 * 10, rel=0.01)


@pytest.mark.parametrize("a_score", [0.005, 0.05, 0.5])
def test_small_networks_alone_leave_passes_as_on_an_ordinary_machine(a_score):
    """Not at no seconds, of which measures that take many passes would make no time either."""
    small = [
        Measured("a", 0.004, 128, a_score * scores, scores=scores) for scores in range(12, 36, 2)
    ]
    fresh, used = (
        estimate(
            dataclasses.replace(of("resnet50", 2000), measures=("nonlinearity_coefficient",)),
            {},
            History(runs),
        )
        for runs in ([], small)
    )
    assert fresh.measure_seconds / 5 < used.measure_seconds < fresh.measure_seconds * 1.1


def test_without_history_the_range_is_wide():
    a_gflop, a_score = DEFAULT_SECONDS
    # Runs without an image or a size say as little as none.
    for runs in ([], [Measured("a", 1.0, 0, 0.0), Measured("b", 0.0, 10, 5.0)]):
        guess = estimate(of("resnet50", 256), {}, History(runs))
        assert guess.seconds == pytest.approx(a_gflop * GFLOPS * 256 + a_score * 50)
        assert guess.factor == FROM_DEFAULT


def test_a_gpu_has_seconds_of_its_own_and_needs_cores_for_its_scores():
    one = of("resnet50", 5120)
    a_gflop, a_score = GPU_SECONDS
    guess = estimate(one, {}, History(device="cuda"))
    assert guess.seconds == pytest.approx(a_gflop * GFLOPS * 5120 + a_score * 50 * (5120 // 256))
    # As many as the scores' core seconds are times the seconds of the passes, however many images.
    needed = CORE_SECONDS * 50 / (BARE_SECONDS * GFLOPS * 256)
    for jobs in ([one], [one, of("resnet50", 256)]):
        assert cores_of_gpu(jobs, {}) == pytest.approx(needed)
    assert cores_of_gpu([], {}) == 0
    alone, two = (
        dataclasses.replace(one, settings=dataclasses.replace(one.settings, metrics=chosen))
        for chosen in (("affinity",), ("affinity", "cka"))
    )
    assert cores_of_gpu([two], {}) == pytest.approx(needed)
    fewer = needed * AFFINITY_SECONDS / CORE_SECONDS
    assert cores_of_gpu([alone], {}) == pytest.approx(fewer)
    assert fewer < cores_of_gpu([one, alone], {}) < needed


def test_of_an_unknown_network_the_work_grows_with_the_image():
    a_gflop, a_score = DEFAULT_SECONDS
    for size in (16, 224, 448):
        one = dataclasses.replace(of("nobody_knows", 256), transform=InputTransform(size, size))
        guess = estimate(one, {}, History())
        work = DEFAULT_GFLOPS * (size / 224) ** 2 * 256
        assert guess.seconds == pytest.approx(a_gflop * work + a_score * 50)


def test_the_bundled_networks_are_counted():
    """Not taken for networks of ordinary size, which take a hundred times as long."""
    a_gflop, a_score = DEFAULT_SECONDS
    one = job()
    scores = a_score * (8 * one.images // one.settings.images_per_score)
    forward = estimate(one, {}, History()).seconds - scores
    assert 0 < forward < a_gflop * 0.02 * one.images


def test_a_measure_takes_as_long_as_its_forward_passes():
    a_gflop, _ = DEFAULT_SECONDS
    plain = of("resnet50", 2000)
    one = dataclasses.replace(plain, measures=("path_length", "nonlinearity_coefficient"))
    guess, without = estimate(one, {}, History()), estimate(plain, {}, History())
    work = PASSES * IMAGES * GFLOPS * a_gflop
    assert guess.measures == pytest.approx(
        {"path_length": MEASURE_SECONDS, "nonlinearity_coefficient": MEASURE_SECONDS + work}
    )
    assert guess.seconds == pytest.approx(without.seconds + sum(guess.measures.values()))
    # Of a small dataset it takes what there is; of what is stored there is nothing to compute.
    few = dataclasses.replace(one, images=10)
    work = PASSES * 10 * GFLOPS * a_gflop
    assert estimate(few, {}, History()).measures["nonlinearity_coefficient"] == pytest.approx(
        MEASURE_SECONDS + work
    )
    done = RunState("done", images=2000, measures={"nonlinearity_coefficient": MEASURE.version})
    guess = estimate(one, {one.run_id: done}, History())
    assert (guess.measures, guess.seconds) == ({"path_length": MEASURE_SECONDS}, MEASURE_SECONDS)


def test_a_forward_pass_of_a_measure_takes_no_longer_than_its_network_took():
    one = dataclasses.replace(of("resnet18", 1024), measures=("nonlinearity_coefficient",))
    slow = Measured("torchvision:vgg16", 15.5, 512, 1e6)
    guess = estimate(one, {}, History([RESNET, slow]))
    passes = PASSES * IMAGES * 20.0 / 512
    assert guess.seconds == pytest.approx(40.0 + MEASURE_SECONDS + passes)
    # Its own time is no history.
    assert guess.factor == FROM_RATE


def test_a_network_that_no_table_lists_is_counted_for_measures_that_pass_often(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A perceptron of three layers was taken for fifty of a network of ordinary size."""
    (tmp_path / "small_nets.py").write_text(
        "from torch import nn\n"
        "def net():\n"
        "    layers = nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)\n"
        "    return nn.Sequential(nn.Flatten(), *layers)\n"
        "net.survey = {'size': 28, 'mean': [0.5], 'std': [0.5], 'classes': 10}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(consent, "_admitted", set())
    consent.trust("python:small_nets:net")
    values = {
        "models": [{"name": "python:small_nets:net"}],
        "datasets": [{"name": "digits[:256]"}],
        "settings": {"images_per_score": 256},
    }

    def planned(measure: str) -> Job:
        definition = parse_definition({**values, "measures": [measure]}, "small", Path())
        return make_plan(definition, {}, Holdings()).jobs[0]

    assert planned("path_length").cost is None
    one = planned("region_density")
    assert one.cost is not None
    assert (one.cost.size, one.cost.depth) == (28, 2)
    seconds = estimate(one, {}, History()).measures["region_density"]
    assert MEASURE_SECONDS < seconds < MEASURE_SECONDS + 2
