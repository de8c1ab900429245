"""Data frames and figures of a home."""

import re
from pathlib import Path

import pandas as pd
import pytest

from analysis import layers, models, signatures
from analysis.figures import save_signatures, signature_lines
from catalog.home import Home
from jobs.local import LocalRunner
from jobs.reporter import SilentReporter
from jobs.run import run_survey
from survey import SettingsError
from tests.jobs.jobs import declared


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "home"
    definition = declared("init:0", "init:1", size=512)
    run_survey(Home.open(path, create=True), definition, LocalRunner("cpu"), SilentReporter())
    return path


def test_signatures_have_a_row_a_run_and_site(home):
    frame = signatures(home)
    assert len(frame) == 2 * 7
    assert frame["affinity"].between(0, 1).all()
    assert list(frame["batches"].unique()) == [3]
    documented = set(re.findall(r"``(\w+)``", signatures.__doc__)) - {"signatures"}
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
    save_signatures(one, tmp_path / "one.svg")
    assert "<svg" in (tmp_path / "one.svg").read_text()


def test_figures_are_svg_or_png(home, tmp_path):
    save_signatures(signatures(home), tmp_path / "s.svg")
    save_signatures(signatures(home), tmp_path / "s.png")
    assert (tmp_path / "s.svg").read_text().count("cifar_resnet8") >= 2
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
