"""One rule for all questions: flags, random weights, settings, effects and colours.

Each test asks every answer that ``ANSWERS`` lists, of one home that allows all of them an answer.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest

from analysis.answers import ANSWERS, Answer
from analysis.answers.base import ColouredAnswer
from analysis.answers.clusters import KMeansClusters
from analysis.answers.drift import SignatureDrift
from analysis.answers.material import Material
from analysis.answers.paper_comparison import _PaperComparison
from analysis.answers.relations import MetricCorrelations
from analysis.data.provenance import COMPARED, provenance_of
from analysis.data.selected_runs import SelectedRuns
from analysis.data.selection import Selection
from analysis.figures.marks.model_colours import ModelColours
from analysis.figures.theme import UNKNOWN
from analysis.report.data import ReportMaterial
from analysis.report.pages import overview_exhibits
from catalog.copied_home import copy_of
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.tags import RunLabels
from jobs.operations.answering import GivenAnswer, given_answer, require_sites
from survey.errors import UnknownName
from survey.network_measures.base import NetworkScore
from tests.analysis.figures.drawn import title
from tests.analysis.homes import Builder

pytestmark = pytest.mark.slow(seconds=40)

#: The weights of one network that the paper prints numbers of.
PRINTED = "torchvision:vgg11/IMAGENET1K_V1"

#: Family, architecture and weights; of VGG one architecture, which is no family.
NETWORKS = (
    *(("Digits ResNet", f"digits_resnet{depth}", "a") for depth in (14, 20)),
    *(("Digits plain", f"digits_plain{depth}", "a") for depth in (14, 20)),
    ("VGG", "vgg11", PRINTED),
)

#: The tag of each checkpoint.
EPOCHS = {"init:0": 0, "a": 9, PRINTED: 9, "b": 10}

#: Images a score of older runs of the first network, which have no part in any answer but drift.
FEWER = 32

#: Options without which an answer has nothing to say.
OPTIONS: dict[str, dict[str, Any]] = {"barycentres": {"number": 2}}

#: The barycentres of another library compile for ten seconds.
CASES = [
    pytest.param(kind, id=kind.name, marks=[pytest.mark.long] if kind is KMeansClusters else [])
    for kind in ANSWERS
]
kinds = pytest.mark.parametrize("kind", CASES)

#: Whose figures have so many panels that they take seconds to make.
PANELS = ("depth", "trend", "training", "checkpoints")

#: Each with whether its figures are compared too.
DRAWN = [
    *(
        pytest.param(*case.values, case.id not in PANELS, id=case.id, marks=case.marks)
        for case in CASES
    ),
    *(
        pytest.param(*case.values, True, id=f"{case.id}-figures", marks=pytest.mark.long)
        for case in CASES
        if case.id in PANELS
    ),
]
coloured = pytest.mark.parametrize(
    "kind", [each for each in CASES if issubclass(each.values[0], ColouredAnswer)]
)


class Zoo:
    """A home of all networks, with tags, flags and repeats.

    Parameters
    ----------
    home : pathlib.Path
        Where it is made.
    level : float, optional
        The score of every site; by default they differ.
    """

    def __init__(self, home: Path, level: float | None = None) -> None:
        self.home, self.level = home, level
        self.rng = np.random.default_rng(0)
        self.tags: dict[str, RunLabels] = {}
        with Builder(home) as store:
            # Of networks that were measured with two settings, the newest count.
            self.measure(store, "fewer", NETWORKS[:1], images_per_score=FEWER)
            for again in ("first", "again")[: 1 if level else 2]:
                self.measure(store, again, NETWORKS[:-2])
                self.measure(store, again, NETWORKS[-2:], images_per_score=256)
        with Registry(store.home) as registry:
            registry.labels.set(self.tags)

    def measure(self, store: Builder, name: str, networks: Any, **conditions: Any) -> None:
        for family, network, first in networks:
            place = [each[1] for each in NETWORKS].index(network)
            facts = {"architecture": network, "family": family, "family_group": "residual"}
            facts |= {"source": "torchvision" if first == PRINTED else "small"}
            facts |= {"year": 2012 + place, "depth": 10 + place, **conditions}
            sites = 8 + 2 * place
            for weights in (first, "b", "init:0"):
                for dataset in ("x", "y")[: 1 if weights == "init:0" else 2]:
                    run = f"{name}-{network}-{weights[-2:]}-{dataset}"
                    self.tags[run] = RunLabels(tags={"epoch": EPOCHS[weights]})
                    top1 = 0.5 + self.rng.uniform(0, 0.1)
                    length = NetworkScore(None if network == "vgg11" else sites / 2, "unknown call")
                    store(
                        run, self.scores(sites, 0.2 * ("ResNet" in family)), self.cells(sites),
                        repeats=[1 + site % 2 for site in range(sites)], checkpoint=weights,
                        dataset=f"folder:/data/{dataset}", measured_top1=top1,
                        measures={"path_length": length}, **facts,
                    )  # fmt: skip

    def scores(self, sites: int, more: float) -> np.ndarray:
        if self.level is not None:
            return np.full((2, sites), self.level)
        base = self.rng.uniform(0.3, 0.6, (1, sites)) + more
        return np.clip(base + self.rng.normal(0, 0.02, (2, sites)), 0.1, 0.9)

    def cells(self, sites: int) -> dict[str, Any]:
        """Return other metrics, and a flag at the first site."""
        flags = [("few_images",), *[()] * (sites - 1)]
        numbers = {"cka": (0.2, 0.8), "norm": (1, 2), "r2": (0.1, 0.9)}
        drawn = {name: self.rng.uniform(*ends, (2, sites)) for name, ends in numbers.items()}
        return {**drawn, "flags": flags}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return Material(Zoo(tmp_path_factory.mktemp("zoo")).home)


@pytest.fixture(scope="module")
def whole(zoo: Material) -> Material:
    """The same home, random weights asked for."""
    return Material(zoo.home, Selection(untrained=True))


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Networks that do not differ in any score."""
    return Material(Zoo(tmp_path_factory.mktemp("flat"), 0.78).home)


def asked(kind: type[Answer], material: Material, **options: Any) -> Answer:
    return kind(material, **OPTIONS.get(kind.name, {}), **options)


@functools.cache
def kept(kind: type[Answer], material: Material) -> Answer:
    """Return an answer that several tests ask for."""
    return asked(kind, material)


@functools.cache
def given(kind: type[Answer], material: Material) -> GivenAnswer:
    """Return what the command line gives."""
    return given_answer(kept(kind, material))


def subject(kind: type[Answer], material: Material) -> pd.DataFrame:
    """Return the runs that an answer is about."""
    if kind is SignatureDrift:
        return Material(material.home, Selection(newest=False, untrained=True)).done
    runs = (material.with_untrained if kind.untrained else material).done
    return runs[runs["checkpoint"] == PRINTED] if issubclass(kind, _PaperComparison) else runs


@kinds
def test_sites_of_few_images_are_marked(kind: type[Answer], zoo: Material) -> None:
    answer = given(kind, zoo)
    sites = 5 * len(NETWORKS) if kind is SignatureDrift else len(subject(kind, zoo))
    assert provenance_of(answer.rows).marked == {"few_images": sites}
    assert any("few_images" in note for note in answer.notes)
    assert f"sites marked: {sites} few_images" in answer.caption


@kinds
def test_random_weights_count_where_they_are_asked_for(
    kind: type[Answer], zoo: Material, whole: Material
) -> None:
    answer, every = given(kind, zoo), asked(kind, whole)
    runs, more = (provenance_of(each) for each in (answer.rows, every.rows))
    assert (runs.runs, more.runs) == tuple(len(subject(kind, each)) for each in (zoo, whole))
    out = 0 if kind.untrained else len(NETWORKS)
    assert (runs.untrained_left_out, more.untrained_left_out) == (out, 0)
    assert any("--untrained" in note for note in answer.notes) is bool(out)


@kinds
def test_settings_meet_in_no_answer_without_a_banner(kind: type[Answer], zoo: Material) -> None:
    runs, warning = subject(kind, zoo), given(kind, zoo).warning
    several = {name for name in COMPARED if runs[name].nunique() > 1} - set(kind.apart)
    assert {name for name in COMPARED if re.search(rf"\b{name} ", warning)} == several
    assert bool(warning) is bool(several)


@pytest.mark.parametrize(("kind", "drawn"), DRAWN)
def test_the_columns_that_are_declared_are_all_that_are_read(
    kind: type[Answer], drawn: bool, zoo: Material
) -> None:
    """Of a copy no other columns are read; where they lack, some functions make up for them."""
    copy_of(open_home(Path(zoo.home), create=False)).update()
    narrow, every = asked(kind, Material(zoo.home, copied=True)), kept(kind, zoo)
    one, other = given_answer(narrow), given(kind, zoo)
    pd.testing.assert_frame_equal(one.rows, other.rows, rtol=1e-9)
    assert replace(one, rows=None) == replace(other, rows=None)
    # Of several figures, one a family, the first. One that reads other columns is not drawn.
    figures = zip(narrow.drawings(), every.drawings(), strict=True)
    for mine, theirs in islice(figures, drawn and narrow.known):
        pd.testing.assert_frame_equal(mine.rows(), theirs.rows(), rtol=1e-9)
        mine.chart()


@pytest.mark.parametrize("kind", [each for each in CASES if each.values[0].command])
def test_for_one_answer_signatures_are_read_once(
    kind: type[Answer], zoo: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command line asks: their own columns first; the others' runs in turn."""
    read: Counter[int] = Counter()
    whole = SelectedRuns.signatures

    def signatures(runs: SelectedRuns, *arguments: Any, **options: Any) -> pd.DataFrame:
        read[id(runs)] += 1
        return whole(runs, *arguments, **options)

    monkeypatch.setattr(SelectedRuns, "signatures", signatures)
    material = Material(zoo.home, for_one=True)
    answer = asked(kind, material)
    require_sites(material, answer.read)
    one, other = given_answer(answer), given(kind, zoo)
    assert set(read.values()) <= {1}
    pd.testing.assert_frame_equal(one.rows, other.rows, rtol=1e-9)
    assert replace(one, rows=None) == replace(other, rows=None)


def test_an_unknown_metric_is_refused_with_all_that_are_known(zoo: Material) -> None:
    copy_of(open_home(Path(zoo.home), create=False)).update()
    refused = []
    for material in (zoo, Material(zoo.home, copied=True)):
        with pytest.raises(UnknownName) as caught:
            given_answer(MetricCorrelations(material, metrics=("normal",)))
        refused.append((caught.value.message, caught.value.hint))
    assert refused[0] == refused[1]


def test_of_one_network_the_newest_settings_count(zoo: Material) -> None:
    runs = zoo.done
    assert set(runs["images_per_score"]) == {64, 256}
    assert set(runs.loc[runs["architecture"] == NETWORKS[0][1], "images_per_score"]) == {64}
    assert SignatureDrift(zoo).statistics.pairs == 5 * len(NETWORKS)


@kinds
def test_no_difference_is_no_finding(kind: type[Answer], flat: Material) -> None:
    finding = given(kind, flat).finding
    ends = re.findall(r"(-?\d+\.\d+)[^.]*? (?:to|against|than) (-?\d+\.\d+)", finding)
    assert [each for each in ends if each[0] == each[1]] == []
    assert not re.search(r"\b(falls from|rises from|lowers|raises|widest|furthest)\b", finding)


@kinds
def test_one_architecture_is_no_family(kind: type[Answer], zoo: Material) -> None:
    assert "VGG" not in given(kind, zoo).finding


def test_figures_of_families_rank_no_single_networks(zoo: Material, flat: Material) -> None:
    for material, ranked in ((zoo, True), (flat, False)):
        (exhibit,) = overview_exhibits(ReportMaterial(material.home))
        finding = title(exhibit.chart())
        assert "VGG" not in finding
        assert ("the most affine" in finding) is ranked


def colours_of(chart: Any, domain: Any) -> dict[str, Any]:
    """Return the drawn colour of each run; the scale must have these values."""
    spec = chart.to_dict()
    encodings = [each for each in _parts(spec) if each.get("field") == "colour"]
    assert encodings
    assert all(each["scale"].get("domain", domain) == domain for each in encodings)
    rows = (row for table in spec["datasets"].values() for row in table if "colour" in row)
    return {row["run_id"]: row["colour"] for row in rows if "run_id" in row}


def _parts(spec: Any) -> Iterator[dict[str, Any]]:
    for each in spec.values() if isinstance(spec, dict) else spec:
        if isinstance(each, dict | list):
            yield from _parts(each)
    if isinstance(spec, dict):
        yield spec


def epochs(material: Material) -> dict[str, str]:
    tags = material.done.set_index("run_id")["tags"]
    return {run: str(each["epoch"]) for run, each in tags.items()}


@coloured
def test_a_tag_colours_every_figure_of_models(kind: type[Answer], zoo: Material) -> None:
    drawing = next(asked(kind, zoo, color_by="epoch").drawings())
    assert colours_of(drawing.chart(), ["9", "10"]) == epochs(zoo)


def test_a_tag_colours_the_signatures_of_a_report(zoo: Material) -> None:
    (exhibit,) = overview_exhibits(ReportMaterial(zoo.home, color_by="tags.epoch"))
    assert colours_of(exhibit.chart(), ["9", "10"]) == epochs(zoo)


def test_many_numbers_are_shades_and_few_are_colours_by_size() -> None:
    runs = [f"r{place}" for place in range(9)]
    rows = pd.DataFrame({"run_id": runs, "family": None})
    many = ModelColours.by(rows.assign(tags=[{"lr": 10.0**-place} for place in range(9)]), "lr")
    shown = rows.assign(colour=many.of(rows))
    assert shown["colour"].tolist() == pytest.approx([10.0**-place for place in range(9)])
    for looks in (many.marks(shown, 300), many.lines(shown, 300)):
        drawn = alt.Chart(shown).mark_point().encode(**looks).to_dict()
        shade = drawn["encoding"]["color"]["condition"]
        assert (shade["field"], shade["type"], shade["test"]) == (
            "colour", "quantitative", "isValid(datum.colour)",
        )  # fmt: skip
    tags = [{"lr": (0.1, 1e-5, 0.01)[place % 3]} if place else {} for place in range(9)]
    few = ModelColours.by(rows.assign(tags=tags), "lr")
    looks = few.marks(rows.assign(colour=few.of(rows)), 300)
    assert looks["color"].to_dict()["scale"]["domain"] == ["1e-05", "0.01", "0.1", UNKNOWN]
