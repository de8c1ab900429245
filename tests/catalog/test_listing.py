"""Listings: filters refuse nonsense, close names are apt, and every fact says where it is from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NoReturn

import pytest

from catalog.listing import (
    Wanted,
    WantedWeights,
    list_checkpoints,
    list_datasets,
    list_models,
)
from catalog.model_facts import show_model
from catalog.models.cifar import CifarSource
from catalog.models.index import architectures, checkpoints, matching
from catalog.models.timm import TimmSource
from survey.errors import CatalogError, SettingsError, UnknownName


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(
    ("wanted", "option"),
    [
        (Wanted(year=-5), "--year"),
        (Wanted(year=2500), "--year"),
        (Wanted(most_parameters=-1), "--max-params"),
        (Wanted(most_parameters=math.nan), "--max-params"),
    ],
)
def test_numbers_that_no_network_can_have_are_refused(
    wanted: Wanted, option: str, cache: Path
) -> None:
    with pytest.raises(SettingsError, match=f"{option} is"):
        list_models(wanted, cache)


@pytest.mark.parametrize("top1", [76, -0.1, math.nan])
def test_accuracies_are_fractions(top1: float, cache: Path) -> None:
    with pytest.raises(SettingsError, match=f"--min-top1 is {top1}"):
        list_checkpoints(WantedWeights(least_top1=top1), cache)


def test_a_known_value_is_not_unknown_because_another_filter_left_none(cache: Path) -> None:
    assert list_models(Wanted(family="ResNet", group="nas-based"), cache).num_rows == 0
    with pytest.raises(UnknownName):
        list_models(Wanted(family="ResNet", group="nas"), cache)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("timm:convnxt*", "timm:convnext*"),
        ("torchvsion:*", "torchvision:*"),
        ("convnxt_tiny", "convnext_tiny or convnextv2_tiny"),
        ("papr", "paper"),
        ("timm", "'timm:*'"),
        ("timm:", "'timm:*'"),
        ("", "survey models"),
        ("qqqqzzzz", "survey models"),
    ],
)
def test_close_patterns_are_apt(pattern: str, hint: str, cache: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        list_models(Wanted(pattern), cache)
    assert hint in str(caught.value.hint)
    assert repr(pattern) in caught.value.message
    suggested = str(caught.value.hint).removeprefix("did you mean ").split(" or ")[0].rstrip("?")
    if suggested.endswith("*"):
        assert matching(architectures(cache), "architecture", suggested, "architecture").num_rows


@pytest.mark.parametrize(
    ("pattern", "hint"), [("IMAGENET1K_V2", "'*/IMAGENET1K_V2'"), ("a1_in1k", "'*.a1_in1k'")]
)
def test_a_tag_alone_is_answered_with_a_glob(pattern: str, hint: str, cache: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        list_checkpoints(WantedWeights(pattern), cache)
    assert hint in str(caught.value.hint)


def test_checkpoints_are_found_by_their_other_names(cache: Path) -> None:
    (row,) = list_checkpoints(WantedWeights("ssl:tv_resnet50_v1"), cache).to_pylist()
    assert row["checkpoint"] == "torchvision:resnet50/IMAGENET1K_V1"
    assert row["aliases"] == ["ssl:tv_resnet50_v1"]


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [("small:digits_vgg7", "--checkpoint bundled"), ("timm:convnext_atto_rms", "init:SEED")],
)
def test_networks_without_published_weights_are_told_from_unknown_ones(
    pattern: str, hint: str, cache: Path
) -> None:
    with pytest.raises(CatalogError, match=pattern) as caught:
        list_checkpoints(WantedWeights(pattern), cache)
    assert hint in str(caught.value.hint)


def test_torchvisions_weights_have_a_size(cache: Path) -> None:
    rows = list_checkpoints(WantedWeights("torchvision:*"), cache).to_pylist()
    assert all(row["bytes"] for row in rows)


def test_our_own_networks_have_a_cost_and_a_family(cache: Path) -> None:
    rows = {row["architecture"]: row for row in list_models(Wanted("small:*"), cache).to_pylist()}
    resnet = rows["small:cifar_resnet20"]
    # Table 6 of He et al. 2016: 0.27 million parameters at 20 layers.
    assert (resnet["depth"], round(resnet["parameters"] / 1e6, 2)) == (20, 0.27)
    assert (resnet["family_group"], resnet["year"]) == ("residual", 2015)
    assert rows["small:cifar_plain20"]["family_group"] == "pre-residual"
    assert all(row["parameters"] and row["gflops"] for row in rows.values())


def test_networks_of_ones_own_are_named_not_listed(cache: Path) -> None:
    with pytest.raises(CatalogError, match="python:nets:make_net") as caught:
        list_models(Wanted("python:nets:make_net"), cache)
    assert "survey models show" in str(caught.value.hint)


def test_datasets_are_found_by_kind_and_glob(tmp_path: Path) -> None:
    def named(pattern: str | None = None, *, here: bool = False) -> set[str]:
        return set(list_datasets(tmp_path, pattern, here=here)["dataset"].to_pylist())

    assert named("cifar10") == {"cifar10", "cifar10:train"}
    assert named("cifar*") > named("cifar10")
    assert {"digits", "random"} <= named(here=True) <= named() - named("cifar*") - {"imagenet"}
    (tmp_path / "datasets/imagenet").mkdir(parents=True)
    assert "imagenet" not in named(here=True)
    (tmp_path / "datasets/imagenet/n01440764").mkdir()
    assert "imagenet" in named(here=True)
    assert named("random:100") == {"random:IMAGES"}
    assert named("folder:photos[:9 stratified]") == {"folder:PATH"}
    assert named("digits[:100]") == {"digits"}
    assert named("cifar10", here=True) == set()
    with pytest.raises(UnknownName) as caught:
        named("cifar1")
    assert "cifar10" in str(caught.value.hint)


def facts(name: str) -> dict[str, dict[str, str]]:
    return {row["fact"]: row for row in show_model(name).to_pylist()}


@pytest.mark.parametrize(
    "name",
    [
        *("torchvision:googlenet", "timm:resnet50", "timm:resnet50.a1_in1k", "small:digits_vgg7"),
        *("ssl:swav_800", "ssl:byol_1000", "ssl:tv_resnet50_v1", "small:cifar_resnet20"),
    ],
)
def test_every_fact_says_where_it_is_from(name: str) -> None:
    rows = show_model(name).to_pylist()
    assert [row["fact"] for row in rows if not row["source"]] == []


def test_accuracies_at_two_image_sizes_are_told_apart() -> None:
    shown = facts("timm:resnet50.a1_in1k")
    assert shown["top-1 reported (supervised, imagenet, 224 pixels)"]["value"] == "0.80382"
    assert shown["top-1 reported (supervised, imagenet, 288 pixels)"]["value"] == "0.8124"
    assert "top-5 reported (supervised, imagenet, 224 pixels)" in shown
    assert shown["other names"]["value"] == "ssl:timm_resnet50.a1_in1k"


def test_a_squashed_image_is_said_to_be_one() -> None:
    published = TimmSource().published()
    squashed = next(each.full_name for each in published if each.transform.crop == "squash")
    assert "both sides to" in facts(squashed)["images are prepared"]["value"]


@pytest.mark.parametrize("name", ["paper", "timm:convnext*"])
def test_show_tells_of_one_model_alone(name: str) -> None:
    with pytest.raises(SettingsError, match=name.replace("*", r"\*")) as caught:
        show_model(name)
    assert f"survey models '{name}'" in str(caught.value.hint)


class Failing(CifarSource):
    """A source of a package, which lists its networks and then fails."""

    def __init__(self, name: str, failing: str) -> None:
        self.name = name
        setattr(self, failing, self._fail)

    def _fail(self, *_: object) -> NoReturn:
        raise RuntimeError("no table")


@pytest.mark.parametrize("failing", ["get", "published"])
def test_a_source_that_fails_is_named_and_stops_no_other(
    failing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = (Failing("failing", failing), CifarSource())
    for module in ("index", "published"):
        monkeypatch.setattr(f"catalog.models.{module}.sources", lambda: asked)
    names = [row["architecture"] for row in architectures(tmp_path).to_pylist()]
    assert names == [f"small:{name}" for name in CifarSource().names()]
    assert checkpoints(tmp_path).num_rows == 0
    assert "failing" in caplog.text
    assert "no table" in caplog.text
    # It may answer the next time.
    assert not list(tmp_path.glob("architectures*"))
