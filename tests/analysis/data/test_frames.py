"""Data frames and figures of a home."""

import pkgutil
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import analysis
from analysis import Selection, layers, models, provenance_of, signatures
from analysis.data.provenance import banner, carried
from analysis.figures import save, signature_chart, signature_lines
from catalog.open_home import open_home
from jobs.run import run_survey
from jobs.runners.local import LocalRunner
from jobs.scan.reporter import Reporter
from survey import SettingsError
from survey.errors import UnknownName
from tests.analysis.homes import Builder
from tests.jobs.jobs import ON_CPU, declared

pytestmark = pytest.mark.slow(seconds=13)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "home"
    definition = declared("init:0", "init:1", size=128)
    run_survey(open_home(path, create=True), definition, LocalRunner(ON_CPU), Reporter())
    return path


def test_signatures_have_a_row_a_run_and_site(home):
    frame = signatures(home)
    assert len(frame) == 2 * 7
    assert frame["affinity"].between(0, 1).all()
    assert list(frame["batches"].unique()) == [3]
    documented = set(re.findall(r"``(\w+)``", signatures.__doc__)) - {
        "signatures",
        "latest_signatures",
        "attrs",
    }
    assert {"role", "graph_depth", "pooling", "cka", "r2"} <= documented <= set(frame)


def test_layers_average_to_signatures(home):
    means = layers(home).groupby(["run_id", "site"])["affinity"].mean()
    expected = signatures(home).set_index(["run_id", "site"])["affinity"]
    pd.testing.assert_series_equal(means.sort_index(), expected.sort_index())


def test_models_know_their_provenance(home):
    frame = models(home)
    assert list(frame["status"]) == ["done", "done"]
    wanted = [
        "job_key", "checkpoint_sha256", "dataset_fingerprint", "settings", "transform",
        "torch_version", "survey_version", "measuring_version", "device", "dtype", "threads",
        "order_seed", "parameters", "gflops", "started_at", "finished_at", "seconds",
    ]  # fmt: skip
    assert frame[wanted].notna().all().all()


def test_a_home_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match="no home"):
        signatures(tmp_path)


def test_lines_run_from_the_first_site_to_the_last(home):
    lines = signature_lines(signatures(home))
    assert set(lines.groupby("model")["depth"].min()) == {0.0}
    assert set(lines.groupby("model")["depth"].max()) == {1.0}


def test_a_signature_of_one_site_can_be_drawn(tmp_path):
    one = pd.DataFrame(
        {"run_id": ["a"], "family": ["f"], "architecture": ["x"], "checkpoint": ["init:0"],
         "site": [0], "affinity": [0.5]}
    )  # fmt: skip
    save(signature_chart(one), tmp_path / "one.svg")
    assert "<svg" in (tmp_path / "one.svg").read_text()


def test_figures_are_svg_or_png(home, tmp_path):
    save(signature_chart(signatures(home)), tmp_path / "s.svg")
    save(signature_chart(signatures(home)), tmp_path / "s.png")
    assert (tmp_path / "s.svg").read_text().count("cifar_resnet8") >= 2
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    path = tmp_path_factory.mktemp("built") / "home"
    store = Builder(path)
    store("r1", [0.1, 0.2, 0.3], roles=("main", "gate", "main"), family_group="residual", year=2015)
    store("r1 again", [[0.5, 0.6, np.nan], [0.7, 0.8, np.nan]], roles=("main", "gate", "main"))
    store("r2", [0.4], architecture="vgg7", family="Digits VGG")
    store("failed", [0.4], architecture="vgg9", status="failed")
    store("other", [0.9, 0.8], checkpoint="init:0")
    return path


def test_the_newest_of_each_is_there_and_all_are_when_asked(built):
    assert list(signatures(built)["run_id"].unique()) == ["r1 again", "r2"]
    every = signatures(built, Selection(newest=False, untrained=True))
    assert set(every["run_id"]) == {"other", "r1", "r1 again", "r2"}
    assert set(every["model"]) == {"resnet20 other", "resnet20 r1", "resnet20 r1 again", "vgg7"}


def test_a_run_has_one_label_in_all_frames(built):
    both = Selection(untrained=True)
    frames = [make(built, both) for make in (signatures, layers, models)]
    named = [dict(zip(frame["run_id"], frame["model"], strict=True)) for frame in frames]
    assert named[2] == {
        "r1 again": "resnet20@bundled", "other": "resnet20@init:0", "r2": "vgg7", "failed": "vgg9",
    }  # fmt: skip
    assert named[0].items() <= named[1].items() <= named[2].items()


def test_relative_depth_is_of_the_whole_run_whatever_the_role(built):
    selection = Selection(models="resnet20@bundled")
    assert list(signatures(built, selection)["relative_depth"]) == [0.0, 0.5, 1.0]
    main = signatures(built, selection, role="main")
    assert list(main["relative_depth"]) == [0.0, 1.0]
    assert list(signatures(built, selection, role="gate")["relative_depth"]) == [0.5]
    assert list(signatures(built, Selection(models="vgg7"))["relative_depth"]) == [0.0]
    with pytest.raises(SettingsError, match="role is 'gates'"):
        signatures(built, role="gates")


def test_frames_say_what_they_are_made_from(built):
    main = signatures(built, Selection(families="digits*"), role="main")
    assert main.attrs == {
        "selection": "family digits*, main sites", "home": str(built), "measuring_versions": [2],
        "conditions": ["64 images a score, ridge absolute"], "mixed": {},
    }  # fmt: skip
    assert "without 1 run of random weights" in models(built).attrs["selection"]
    assert "1 run of random weights" in provenance_of(models(built)).notes()[0]
    assert provenance_of(main).runs == 1


def test_runs_measured_in_other_ways_are_told_and_can_be_chosen(tmp_path):
    store = Builder(tmp_path)
    store("many", [0.4, 0.5])
    store("few", [0.4, 0.5], architecture="vgg7", images_per_score=32, shrinkage="none")
    provenance = provenance_of(signatures(tmp_path))
    ways = (
        "32 images a score, shrinkage none, ridge absolute",
        "64 images a score, ridge absolute",
    )
    assert provenance.conditions == ways
    assert " or ".join(ways) in provenance.caption()
    assert provenance.mixed == {
        "images_per_score": ["32", "64"], "shrinkage": ["ledoit-wolf", "none"],
    }  # fmt: skip
    warning = str(banner(provenance.mixed))
    assert all(part in warning for part in ("32 and 64", "choose by images_per_score or shrinkage"))
    assert banner(provenance.mixed, ("images_per_score", "shrinkage")) is None
    for chosen in (Selection(images_per_score="64"), Selection(shrinkages="ledoit*")):
        kept = provenance_of(signatures(tmp_path, chosen))
        assert kept.conditions == ways[1:]
        assert banner(kept.mixed) is None
        assert set(signatures(tmp_path, chosen)["run_id"]) == {"many"}


def test_a_part_of_a_selection_says_how_it_was_measured_itself(tmp_path):
    store = Builder(tmp_path)
    store("many", [0.4, 0.5])
    store("few", [0.4, 0.5], architecture="vgg7", images_per_score=32, ridge=None)
    for frame in (signatures(tmp_path), models(tmp_path)):
        part = frame[frame["run_id"] == "few"]
        assert provenance_of(part).conditions == ("32 images a score",)
        assert carried(pd.DataFrame(), part).attrs["conditions"] == ["32 images a score"]


def test_of_repeats_the_newest_comes_last(tmp_path):
    """Whatever takes one run of several takes the last of the frame."""
    store = Builder(tmp_path)
    for run_id in ("c", "a", "b"):
        store(run_id, [0.4, 0.5])
    for make in (signatures, layers, models):
        assert list(make(tmp_path, Selection(newest=False))["run_id"].unique()) == ["c", "a", "b"]


def test_sites_without_a_score_are_missing_and_others_are_means(built):
    sites = signatures(built, Selection(models="resnet20@bundled"))
    assert list(sites["affinity"][:2]) == pytest.approx([0.6, 0.7])
    assert sites["affinity"].isna().tolist() == [False, False, True]
    first = signatures(built, Selection(newest=False)).set_index("run_id").loc["r1"]
    assert set(first["family_group"]) == {"residual"}
    assert set(first["year"]) == {2015}


def test_of_layers_some_columns_can_be_read(built):
    every = layers(built)
    some = layers(built, columns=["cka", "site"])
    assert list(some) == ["run_id", "batch", "site", "cka", "model", "label", "tags"]
    pd.testing.assert_frame_equal(some, every[list(some)])
    with pytest.raises(UnknownName, match="affinty"):
        layers(built, columns=["affinty"])


def test_an_empty_home_has_empty_frames(tmp_path):
    Builder(tmp_path)
    for make in (signatures, layers, models):
        assert len(make(tmp_path)) == 0
        assert "model" in make(tmp_path)
    with pytest.raises(SettingsError, match="no run fits the model"):
        signatures(tmp_path, Selection(models="vgg7"))


def test_the_face_gives_what_it_names():
    assert list(analysis.__all__) == sorted(analysis.__all__)
    for name in analysis.__all__:
        assert getattr(analysis, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        analysis.nothing  # noqa: B018


def test_no_function_of_the_face_is_hidden_by_a_module():
    """Importing ``analysis.x`` puts the module in the place of a function of that name."""
    modules = {module.name for module in pkgutil.iter_modules(analysis.__path__)}
    assert modules & set(analysis.__all__) == {"figures"}
