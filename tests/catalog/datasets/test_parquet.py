"""Parquet files of images: the same samples as files in folders, labels in every form they take."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.datasets import ImageDataset, open_dataset
from catalog.datasets.kinds import parquet_rows
from catalog.datasets.kinds.parquet_pages import Footer
from catalog.datasets.label_map import label_map
from catalog.datasets.order import place
from catalog.models.base import InputTransform
from survey.errors import DatasetError
from tests.catalog.datasets.dataset_files import jpeg, noise
from tests.shared_data import shared

SMALL = InputTransform(size=16, resize=20)
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def hub_metadata(names: Sequence[str]) -> dict[str, str]:
    features = {"image": {"_type": "Image"}, "label": {"names": list(names), "_type": "ClassLabel"}}
    return {"huggingface": json.dumps({"info": {"features": features}})}


def write(
    path: Path,
    pictures: Sequence[bytes | None],
    labels: Sequence[Any] | None = None,
    *,
    paths: Sequence[str | None] | None = None,
    names: Sequence[str] = (),
    group: int = 4,
    label_type: pa.DataType | None = None,
) -> Path:
    """Write a file in the hub's layout, with few rows a row group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"bytes": content, "path": paths[row] if paths else None}
        for row, content in enumerate(pictures)
    ]
    columns = {"image": pa.array(rows, IMAGE)}
    if labels is not None:
        columns["label"] = pa.array(labels, label_type)
    table = pa.table(columns)
    if names:
        table = table.replace_schema_metadata(hub_metadata(names))
    pq.write_table(table, path, row_group_size=group)
    return path


def opened(path: Path) -> ImageDataset:
    return open_dataset(f"parquet:{path}", Path())


def contents(dataset: ImageDataset, start: int = 0) -> list[tuple[Any, ...]]:
    return [
        (s.position, s.name, s.label, s.error, None if s.pixels is None else s.pixels.tolist())
        for s in dataset.samples(SMALL, start)
    ]


def as_folder(root: Path, count: int = 14) -> dict[str, bytes]:
    files = {f"{'ab'[n % 2]}/{n:02}.jpg": jpeg(n) for n in range(count)}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return files


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("block", [1, 4000, 1 << 28])
def test_the_same_pictures_are_the_same_dataset_as_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int, block: int
) -> None:
    monkeypatch.setattr(parquet_rows, "BLOCK_BYTES", block)
    files = as_folder(tmp_path / "folder")
    items = list(files.items())
    for shard in range(shards):
        part = items[shard::shards]
        write(
            tmp_path / "hub" / "data" / f"test-{shard:05}-of-{shards:05}.parquet",
            [content for _, content in part],
            ["ab".index(name[0]) for name, _ in part],
            paths=[name for name, _ in part],
            names=("a", "b"),
        )
    folder = open_dataset("folder:folder", tmp_path)
    dataset = open_dataset("parquet:hub", tmp_path)
    assert dataset.name == "parquet:hub"
    assert dataset.class_names == folder.class_names
    assert contents(dataset) == contents(folder)
    assert contents(dataset, 9) == contents(folder, 9)
    assert dataset.labels() == folder.labels()
    assert dataset.fingerprint() == folder.fingerprint()
    picked = [sample.name for sample in dataset.pick(SMALL, (11, 2, 5))]
    assert picked == [sample.name for sample in folder.pick(SMALL, (11, 2, 5))]


@pytest.mark.real_data
def test_real_photographs_are_the_same_from_a_table(tmp_path: Path) -> None:
    root = shared("data/imagenet-sample")
    folder = open_dataset(f"folder:{root}", Path())
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.jpg"))[:12]
    path = write(
        tmp_path / "sample.parquet",
        [(root / name).read_bytes() for name in names],
        [name.partition("/")[0] for name in names],
        paths=names,
    )
    dataset = opened(path)
    assert len(dataset) == 12
    assert label_map(dataset.class_names, 1000) is not None
    transform = InputTransform(size=64, resize=72)
    everything = sorted((p.relative_to(root).as_posix() for p in root.rglob("*.jpg")), key=place)
    wanted = [position for position, name in enumerate(everything) if name in names]
    expected = {s.name: s for s in folder.pick(transform, wanted)}
    for sample in dataset.samples(transform):
        same = expected[sample.name]
        assert sample.label is not None
        assert same.label is not None
        assert dataset.class_names[sample.label] == folder.class_names[same.label]
        assert sample.pixels is not None
        assert same.pixels is not None
        assert bool((sample.pixels == same.pixels).all())


def test_plain_bytes_and_plain_numbers(tmp_path: Path) -> None:
    path = tmp_path / "plain.parquet"
    table = pa.table({"img": [jpeg(n) for n in range(5)], "fine_label": [2, 0, 1, 2, 0]})
    pq.write_table(table, path)
    dataset = opened(path)
    assert dataset.class_names == ("0", "1", "2")
    assert sorted(row[1:3] for row in contents(dataset)) == [
        (f"{row:08d}", label) for row, label in enumerate([2, 0, 1, 2, 0])
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), None])
def test_class_names_as_labels_are_sorted(tmp_path: Path, kind: pa.DataType | None) -> None:
    named: Any = pa.array(["dog", "cat", None, "dog"])
    labels = named.dictionary_encode() if kind is None else named.cast(kind)
    path = write(tmp_path / "x.parquet", [jpeg(n) for n in range(4)])
    pq.write_table(pq.read_table(path).append_column("label", labels), path)
    dataset = opened(path)
    assert dataset.class_names == ("cat", "dog")
    by_row = [label for _, label in sorted(row[1:3] for row in contents(dataset))]
    assert by_row == [1, 0, None, 1]


def test_metadata_that_is_no_layout_of_the_hub_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", [jpeg(0), jpeg(1)], [1, 0])
    for metadata in ("{", "[" * 100_000, "{}", '{"info": {"features": {"label": {"names": 3}}}}'):
        table = pq.read_table(path).replace_schema_metadata({"huggingface": metadata})
        pq.write_table(table, path)
        assert opened(path).class_names == ("0", "1")


def test_withheld_labels_are_none(tmp_path: Path) -> None:
    pictures = [jpeg(n) for n in range(3)]
    some = opened(write(tmp_path / "a.parquet", pictures, [-1, 1, None], names=("x", "y")))
    assert sorted(row[1:3] for row in contents(some)) == [
        ("00000000", None),
        ("00000001", 1),
        ("00000002", None),
    ]
    for labels in (None, [-1, -1, -1]):
        none = opened(write(tmp_path / "b.parquet", pictures, labels))
        assert none.class_names == ()
        assert set(none.labels()) == {None}


def test_broken_pictures_and_mere_paths_are_samples_with_a_reason(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(jpeg(1))
    rows = [jpeg(0), b"no picture", None]
    dataset = opened(write(tmp_path / "x.parquet", rows, [0, 0, 0], paths=["a", "b", str(secret)]))
    samples = {sample.name: sample for sample in dataset.samples(SMALL)}
    assert samples["a"].pixels is not None
    assert samples["b"].pixels is samples[str(secret)].pixels is None
    assert samples["b"].error
    assert samples[str(secret)].error
    assert len(dataset.fingerprint()) == 64


def test_names_are_rows_where_paths_are_not_unique(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", [jpeg(n) for n in range(3)], paths=["a", "a", "b"])
    assert sorted(row[1] for row in contents(opened(path))) == ["00000000", "00000001", "00000002"]


def most_bytes(dataset: ImageDataset) -> int:
    """Return the most that Python's objects take while a dataset is hashed."""
    tracemalloc.start()
    try:
        dataset.fingerprint()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_block_holds_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [noise(100_000, seed=n).tobytes() for n in range(60)]
    dataset = opened(write(tmp_path / "x.parquet", pictures, group=10))
    assert most_bytes(dataset) > 60 * 100_000
    monkeypatch.setattr(parquet_rows, "BLOCK_BYTES", 6 * 100_000)
    assert most_bytes(dataset) < 10 * 100_000


def test_leaving_early_reads_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = opened(write(tmp_path / "x.parquet", [jpeg(n) for n in range(60)], group=10))
    groups: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def watched(file: pq.ParquetFile, *args: Any, row_groups: list[int], **options: Any) -> Any:
        groups.extend(row_groups)
        return iter_batches(file, *args, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    monkeypatch.setattr(parquet_rows, "BLOCK_BYTES", 1)
    samples = iter(dataset.samples(SMALL))
    next(samples)
    samples.close()  # type: ignore[attr-defined]
    assert 0 < len(groups) < 60


def test_splits_are_not_mixed_and_shards_not_missed(tmp_path: Path) -> None:
    for name in ("train-00000-of-00001", "test-00000-of-00002", "test-00001-of-00002"):
        write(tmp_path / "data" / f"{name}.parquet", [jpeg()], [0], paths=[name])
    with pytest.raises(DatasetError, match="data/test, data/train") as caught:
        opened(tmp_path)
    assert f"parquet:{tmp_path}/data/test-*" in str(caught.value.hint)
    assert len(opened(tmp_path / "data" / "test-*")) == 2
    assert len(opened(tmp_path / "data" / "test-00001-of-00002.parquet")) == 1
    write(tmp_path / "data" / "test-00002-of-00009.parquet", [jpeg()], [0])
    with pytest.raises(DatasetError, match="3 of the 9"):
        opened(tmp_path / "data" / "test-*")
    write(tmp_path / "converted" / "train" / "0000.parquet", [jpeg()], [0])
    write(tmp_path / "converted" / "test" / "0000.parquet", [jpeg()], [0])
    with pytest.raises(DatasetError, match="test, train"):
        opened(tmp_path / "converted")


@pytest.mark.parametrize(
    "files",
    [
        ("default/train/0000", "default/valid/0000"),
        ("default/partial-train/0000", "default/test/0000"),
        ("train", "test"),
        ("Train/0", "Test/0"),
        ("train_0", "test_0"),
        ("images-train", "images-val"),
        ("train/label=0/0", "test/label=0/0"),
        ("plain/test/0000", "fancy/test/0000"),
        ("plain/test-00000-of-00001", "fancy/test-00000-of-00001"),
    ],
)
def test_splits_are_known_by_their_folders_and_files(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    for images, file in enumerate(files, 1):
        write(tmp_path / f"{file}.parquet", [jpeg(n) for n in range(images)], [0] * images)
    with pytest.raises(DatasetError, match="several splits") as caught:
        opened(tmp_path)
    one = str(caught.value.hint).rpartition("parquet:")[2]
    assert len(opened(Path(one))) in (1, 2)


@pytest.mark.parametrize(
    "files",
    [
        ("test_0", "test_1"),
        ("val/a", "val/b"),
        ("contest", "trainer"),
        ("test/a", "images/b"),
        ("cats/test_1", "dogs/test_2"),
    ],
)
def test_files_of_one_split_are_one_dataset(tmp_path: Path, files: tuple[str, ...]) -> None:
    for name in files:
        write(tmp_path / "test-set" / f"{name}.parquet", [jpeg()], [0])
    assert len(opened(tmp_path / "test-set")) == len(files)


def test_one_file_of_several_is_no_whole(tmp_path: Path) -> None:
    file = write(tmp_path / "data" / "test-00000-of-00005.parquet", [jpeg()], [0])
    for part in (tmp_path, tmp_path / "data" / "test-*"):
        with pytest.raises(DatasetError, match="1 of the 5"):
            opened(part)
    assert len(opened(file)) == 1


@pytest.mark.parametrize(
    ("labels", "names", "named"),
    [
        ([0, 2], ("a", "b"), "label 2.* 0 to 1"),
        ([0, -2], ("a", "b"), "label -2"),
        ([0, 1 << 40], (), "0 to 999999"),
        ([0.5, 1.0], (), "labels"),
        ([[1], [2]], (), "labels"),
    ],
)
def test_labels_of_no_class_are_refused(
    tmp_path: Path, labels: list[Any], names: tuple[str, ...], named: str
) -> None:
    path = write(tmp_path / "x.parquet", [jpeg(0), jpeg(1)], labels, names=names)
    with pytest.raises(DatasetError, match=named):
        opened(path)


def test_truth_values_are_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", [jpeg(0), jpeg(1), jpeg(2)], [True, False, None])
    labels = opened(path).labels()
    assert sorted(map(repr, labels)) == ["0", "1", "None"]


@pytest.mark.parametrize("labels", [["cat"], None])
def test_shards_with_other_labels_are_refused(tmp_path: Path, labels: list[Any] | None) -> None:
    write(tmp_path / "0.parquet", [jpeg(0), jpeg(1)], [0, 1])
    write(tmp_path / "1.parquet", [jpeg(2)], labels)
    with pytest.raises(DatasetError, match=r"labels|columns"):
        opened(tmp_path)


def test_text_that_is_none_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", [jpeg(0)], [0], paths=["unique-name.jpg"])
    path.write_bytes(path.read_bytes().replace(b"unique-name", b"\xff\xff\xff\xff\xff\xff-name"))
    with pytest.raises(DatasetError, match=str(path)):
        opened(path)


def test_equal_pictures_are_held_once(tmp_path: Path) -> None:
    dataset = opened(write(tmp_path / "x.parquet", [noise(100_000).tobytes()] * 9, group=9))
    assert most_bytes(dataset) < 5 * 100_000


@pytest.mark.parametrize("block", [parquet_rows.BLOCK_BYTES, 1])
def test_one_picture_of_many_rows_is_refused(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "BLOCK_BYTES", block)
    file, picture = tmp_path / "file.parquet", jpeg(width=400, height=300)
    most = 10 + 2**20 // len(picture)
    _repeated(file, "image", picture, most)
    assert len(contents(opened(file))) == most
    # Each row of it would be decoded, for hours if the picture is a large one.
    _repeated(file, "image", picture, most + 3)
    with pytest.raises(DatasetError, match=str(file)) as caught:
        opened(file).fingerprint()
    assert caught.value.hint


@pytest.mark.parametrize("damage", ["cut off", "page", "empty", "missing", "no rows", "folder"])
def test_damaged_files_are_refused(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "x.parquet", [] if damage == "no rows" else [jpeg()])
    whole = path.read_bytes()
    if damage in {"missing", "folder"}:
        path.unlink()
    elif damage != "no rows":
        content = {"cut off": whole[:-20], "page": b"<html>no</html>", "empty": b""}
        path.write_bytes(content[damage])
    with pytest.raises(DatasetError, match=str(tmp_path)) as caught:
        opened(tmp_path if damage == "folder" else path)
    assert caught.value.hint


def test_other_columns_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"picture": [b"x"], "text": ["y"]}), tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match=r"'image'.* picture, text"):
        opened(tmp_path / "a.parquet")
    pq.write_table(pa.table({"image": ["a.jpg"]}), tmp_path / "b.parquet")
    with pytest.raises(DatasetError, match=r"'image'.* string"):
        opened(tmp_path / "b.parquet")
    write(tmp_path / "c" / "1.parquet", [jpeg()], [0], names=("a",))
    write(tmp_path / "c" / "2.parquet", [jpeg()], [0], names=("b",))
    with pytest.raises(DatasetError, match=r"2\.parquet.* .*1\.parquet"):
        opened(tmp_path / "c")


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_are_as_large_as_arrow_says(tmp_path: Path, compression: str, version: str) -> None:
    file = tmp_path / "file.parquet"
    pictures = [noise(row % 7, 50, seed=row).tobytes() for row in range(3000)]
    table = pa.table({"image": pa.array(pictures, pa.binary()), "label": range(3000)})
    options = {"compression": compression, "data_page_version": version, "data_page_size": 5000}
    pq.write_table(table, file, row_group_size=1000, **options)
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(number) for number in range(3)]
    footer = Footer(file)
    assert footer.rows == [group.num_rows for group in groups]
    for number, leaf in enumerate(("image", "label")):
        # Arrow counts the pages' headers too, of which none has two hundred bytes.
        stated = sum(group.column(number).total_uncompressed_size for group in groups)
        pages = footer.pages(leaf)
        assert pages.total < stated < pages.total * 1.1 + 3 * 4 * 200


def test_columns_by_other_paths_than_the_schemas_are_refused(tmp_path: Path) -> None:
    """Arrow unpacks them all the same, and the bound on pages would be asked of none."""
    path = write(tmp_path / "x.parquet", [jpeg()], [0])
    data, name = path.read_bytes(), b"image"
    # The schema names it first, the row group after that.
    last = data.rindex(name)
    path.write_bytes(data[:last] + b"other" + data[last + len(name) :])
    with pytest.raises(DatasetError, match="columns"):
        opened(path)


def _repeated(path: Path, column: str, value: bytes | str, rows: int) -> None:
    """Write one value that a great many rows name."""
    others = {"image": pa.array([b"x"], pa.binary()), "label": pa.array(["y"])}
    columns = {
        name: pa.DictionaryArray.from_arrays(
            pa.array([0] * rows, pa.int32()), pa.array([value]) if name == column else other
        )
        for name, other in others.items()
    }
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)


@pytest.mark.parametrize(
    ("column", "value", "rows"),
    [
        ("image", bytes(2**25), 4),  # one page of some hundred bytes
        ("label", "y" * 5000, 100_000),  # one long name of all rows
        ("image", b"x", 2_000_000),  # rows alone
    ],
)
def test_a_small_file_makes_no_memory(
    tmp_path: Path, column: str, value: bytes | str, rows: int
) -> None:
    file = tmp_path / "file.parquet"
    _repeated(file, column, value, rows)
    assert file.stat().st_size < 2**20
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        with pytest.raises(DatasetError, match=str(file)) as caught:
            opened(file)
    finally:
        pa.set_memory_pool(usual)
    assert caught.value.hint
    assert counting.max_memory() < 2**28


def test_one_value_of_many_rows_is_unpacked_in_few(tmp_path: Path) -> None:
    file = tmp_path / "file.parquet"
    _repeated(file, "image", noise(2**25).tobytes(), 9)
    dataset = opened(file)
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        assert len(dataset) == 9
        dataset.fingerprint()
    finally:
        pa.set_memory_pool(usual)
    # Nine of them would be more.
    assert counting.max_memory() < 2**28


def test_a_page_with_a_checksum_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "file.parquet"
    table = pa.table({"image": pa.array([jpeg(1)], pa.binary())})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, file, write_page_checksum=True, **options)
    whole = file.read_bytes()
    place = whole.index(jpeg(1)) + 300
    file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(DatasetError, match="CRC"):
        opened(file).fingerprint()


def test_damage_within_is_met_when_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", [jpeg(n) for n in range(8)], [0] * 8)
    dataset = opened(path)
    signature, fingerprint = dataset.stat_signature(), dataset.fingerprint()
    whole = bytearray(path.read_bytes())
    whole[40:400] = bytes(360)
    path.write_bytes(whole)
    assert dataset.stat_signature() != signature
    try:
        assert dataset.fingerprint() != fingerprint
    except DatasetError as error:
        assert str(path) in error.message  # noqa: PT017 - either is right
    path.unlink()
    with pytest.raises(DatasetError, match=str(path)):
        list(dataset.samples(SMALL))


@pytest.mark.parametrize("rows", [1, 8, 9])
def test_a_file_that_is_replaced_is_noticed(tmp_path: Path, rows: int) -> None:
    path = write(tmp_path / "x.parquet", [jpeg(n) for n in range(8)], [0] * 8, group=20)
    dataset = opened(path)
    write(path, [jpeg(n) for n in range(rows)], [0] * rows, group=20)
    with pytest.raises(DatasetError, match=str(path)):
        list(dataset.samples(SMALL))


def test_a_picture_may_be_large_binary(tmp_path: Path) -> None:
    table = pa.table({"image": pa.array([jpeg(3)], pa.large_binary())})
    pq.write_table(table, tmp_path / "x.parquet")
    (sample,) = opened(tmp_path / "x.parquet").samples(SMALL)
    assert sample.pixels is not None


def test_what_is_no_glob_is_refused(tmp_path: Path) -> None:
    for name in ("a**b", "**x", "a?**"):
        with pytest.raises(DatasetError, match="is no glob"):
            opened(tmp_path / name)
