"""Parts of datasets: the first of the order, equal shares of the classes, and how names say it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from catalog.datasets import ImageDataset, open_dataset, selected_name
from catalog.datasets.kinds.digits import DigitsDataset
from catalog.models.base import InputTransform
from survey.errors import DatasetError, SettingsError, UnknownName
from tests.catalog.datasets.dataset_files import noise

SMALL = InputTransform(size=8, resize=8)
SIZES = {"a": 3, "b": 30, "c": 12}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, size in SIZES.items():
        for index in range(size):
            path = tmp_path / "pictures" / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise(8, 8, 3, seed=index)).save(path)
    return tmp_path


def names(dataset: ImageDataset, start: int = 0) -> list[str]:
    return [sample.name for sample in dataset.samples(SMALL, start)]


def test_a_limit_takes_the_first_of_the_order(folder: Path) -> None:
    whole = open_dataset("folder:pictures", folder)
    part = open_dataset("folder:pictures[:10]", folder)
    assert part.name == "folder:pictures[:10]"
    assert len(part) == 10
    assert part.class_names == whole.class_names
    assert names(part) == names(whole)[:10]
    assert names(part, 7) == names(whole)[7:10]
    assert list(part.labels()) == list(whole.labels())[:10]
    assert [sample.position for sample in part.samples(SMALL, 8)] == [8, 9]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9, 10, 11, 20, 44, 45])
def test_shares_are_equal_as_far_as_the_classes_reach(folder: Path, limit: int) -> None:
    whole = names(open_dataset("folder:pictures", folder))
    part = open_dataset(f"folder:pictures[:{limit} stratified]", folder)
    chosen = names(part)
    counts = Counter(name[0] for name in chosen)
    assert len(chosen) == limit
    assert chosen == [name for name in whole if name in set(chosen)]
    most = max(counts.values())
    for name, size in SIZES.items():
        of_class = [each for each in whole if each[0] == name]
        # Every class gives its first images, and is one short of another or has no more.
        assert [each for each in chosen if each[0] == name] == of_class[: counts[name]]
        assert counts[name] in {most, most - 1} or counts[name] == size
    # What is left over goes to the classes whose next image comes first.
    extra = [name for name in counts if counts[name] == most and most > 1]
    short = [n for n in SIZES if counts[n] == most - 1 < SIZES[n]]
    turn = {n: whole.index([e for e in whole if e[0] == n][most - 1]) for n in (*extra, *short)}
    assert all(turn[given] < turn[held] for given in extra for held in short)


def test_labels_and_positions_are_the_selections(folder: Path) -> None:
    part = open_dataset("folder:pictures[:9 stratified]", folder)
    samples = list(part.samples(SMALL))
    assert [sample.position for sample in samples] == list(range(9))
    assert [sample.label for sample in samples] == list(part.labels())
    assert Counter(part.labels()) == {0: 3, 1: 3, 2: 3}
    assert names(part, 4) == [sample.name for sample in samples][4:]
    assert [sample.name for sample in part.pick(SMALL, (8, 0))] == [
        samples[8].name,
        samples[0].name,
    ]


def test_fingerprints_tell_selections_apart(folder: Path) -> None:
    selections = ("[:9]", "[:10]", "[:9 stratified]", "")
    parts = [open_dataset(f"folder:pictures{selection}", folder) for selection in selections]
    assert len({part.fingerprint() for part in parts}) == 4
    assert len({part.stat_signature() for part in parts}) == 4
    everything = open_dataset("folder:pictures[:45]", folder)
    assert everything.fingerprint() == parts[-1].fingerprint()
    before = parts[0].fingerprint()
    Image.fromarray(noise(8, 8, 3, seed=99)).save(folder / "pictures" / "b" / "0.png")
    assert open_dataset("folder:pictures[:9]", folder).fingerprint() != before


@pytest.mark.parametrize("name", ["digits", "digits:heldout", "random:50"])
def test_every_kind_can_be_cut(name: str) -> None:
    whole, part = open_dataset(name, Path()), open_dataset(f"{name}[:7]", Path())
    assert names(part) == names(whole)[:7]
    assert list(part.labels()) == list(whole.labels()[:7])
    assert all(sample.pixels is not None for sample in part.samples(SMALL))


def test_digits_are_stratified_without_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an image was decoded")

    monkeypatch.setattr(DigitsDataset, "pick", refuse)
    part = open_dataset("digits[:100 stratified]", Path())
    assert Counter(part.labels()) == dict.fromkeys(range(10), 10)
    assert len(part.fingerprint()) == 64


def test_labels_of_endless_noise_cost_nothing() -> None:
    labels = open_dataset("random:4000000000", Path()).labels()
    assert len(labels) == 4_000_000_000
    assert labels[3_999_999_999] is None
    assert len(labels[:5]) == 5
    with pytest.raises(IndexError):
        labels[4_000_000_000]


@pytest.mark.parametrize(
    "name",
    [
        "digits[:0]",
        "digits[:1798]",
        "digits[:1798 stratified]",
        "random:9[:5 stratified]",
        "digits[:-5]",
        "digits[:5000 stratify]",
        "digits[:5000stratified]",
        "digits[: 50]",
        "digits[:5_0]",
        "digits[:1e3]",
        "digits[:²]",
        "digits[:]",
        "digits[:10][:5]",
        "digits[order x]",
        "digits[:5order 3]",
        "digits[order 1][:5]",
    ],
)
def test_selections_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(DatasetError, match=name.partition("[")[0]) as caught:
        open_dataset(name, Path())
    assert "write " in str(caught.value.hint)


@pytest.mark.parametrize("name", ["digit[:5]", "digits[5]", "[:5]", "digits[:5"])
def test_names_nobody_knows_stay_unknown(name: str) -> None:
    with pytest.raises(UnknownName, match="dataset") as caught:
        open_dataset(name, Path())
    assert "digits" in str(caught.value.hint)


def test_brackets_in_a_path_are_no_selection(tmp_path: Path) -> None:
    path = tmp_path / "run[2]" / "x.png"
    path.parent.mkdir()
    Image.fromarray(noise(8, 8, 3)).save(path)
    assert len(open_dataset("folder:run[2]", tmp_path)) == 1
    assert len(open_dataset("folder:run[2][:1]", tmp_path)) == 1


def test_names_are_composed_as_they_are_read() -> None:
    assert selected_name("digits", None) == "digits"
    assert selected_name("digits[:5]", None) == "digits[:5]"
    assert selected_name("digits", 20) == "digits[:20]"
    assert selected_name("digits", 20, stratified=True) == "digits[:20 stratified]"
    composed = selected_name("digits:train", 30, stratified=True)
    assert open_dataset(composed, Path()).name == composed


@pytest.mark.parametrize(
    ("name", "limit", "stratified"),
    [("digits", 0, False), ("digits", None, True), ("digits[:5]", 5, False)],
)
def test_limits_that_make_no_sense_are_refused(
    name: str, limit: int | None, stratified: bool
) -> None:
    with pytest.raises(SettingsError):
        selected_name(name, limit, stratified=stratified)


def test_another_order_is_all_of_the_same_images(folder: Path) -> None:
    whole = open_dataset("folder:pictures", folder)
    other = open_dataset("folder:pictures[order 3]", folder)
    assert other.name == "folder:pictures[order 3]"
    assert names(other) != names(whole)
    assert sorted(names(other)) == sorted(names(whole))
    assert names(other, 40) == names(other)[40:]
    assert [sample.label for sample in other.samples(SMALL)] == list(other.labels())
    assert names(other) != names(open_dataset("folder:pictures[order 4]", folder))


def test_a_part_of_another_order_is_the_first_of_it(folder: Path) -> None:
    other = open_dataset("folder:pictures[order 3]", folder)
    part = open_dataset("folder:pictures[:9 order 3]", folder)
    assert names(part) == names(other)[:9]
    fair = open_dataset("folder:pictures[:9 stratified order 3]", folder)
    assert Counter(fair.labels()) == {0: 3, 1: 3, 2: 3}
    assert names(fair) == [name for name in names(other) if name in set(names(fair))]
    everything = open_dataset("folder:pictures[:45 order 3]", folder)
    assert everything.fingerprint() == other.fingerprint()
    kinds = [part, fair, other, open_dataset("folder:pictures", folder)]
    assert len({each.fingerprint() for each in kinds}) == 4


def test_an_order_stays_what_it_is_for_ever() -> None:
    first = [sample.name for sample in open_dataset("random:9[order 7]", Path()).samples(SMALL)]
    assert first == ["0", "2", "5", "7", "4", "3", "1", "6", "8"]


def test_the_default_order_needs_no_name() -> None:
    assert selected_name("digits", None, order_seed=0) == "digits"
    assert selected_name("digits[order 0]", None) == "digits"
    assert selected_name("digits", 9, stratified=True, order_seed=3) == (
        "digits[:9 stratified order 3]"
    )
    assert selected_name("digits[:9]", None, order_seed=3) == "digits[:9 order 3]"
    assert selected_name("digits[order 3]", 9) == "digits[:9 order 3]"
    assert open_dataset("digits[order 0]", Path()).name == "digits"


@pytest.mark.parametrize(("name", "seed"), [("digits", -1), ("digits", 10**9), ("d[order 2]", 3)])
def test_orders_that_make_no_sense_are_refused(name: str, seed: int) -> None:
    with pytest.raises(SettingsError, match=f"order seed of .*{seed}"):
        selected_name(name, None, order_seed=seed)
