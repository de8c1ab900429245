"""The contract of every dataset kind, as tests that a kind's test class inherits.

::

    class TestMine(DatasetKindContract):
        kind = mine.KIND
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from catalog.datasets import ImageDataset, Sample
from catalog.datasets.kind import DatasetKind, DatasetRequest
from catalog.models.base import InputTransform

#: Two ways to prepare an image, of different sizes.
TRANSFORMS = (InputTransform(size=16, resize=20), InputTransform(size=24, resize=24))


class DatasetKindContract:
    """Inherit, and set ``kind``; override ``opener`` where a dataset needs files."""

    kind: DatasetKind

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Callable[[], ImageDataset]:
        """Return what opens the same small dataset of the kind anew, of at least three images."""
        info = self.kind.names[0]
        return lambda: self.kind.open(DatasetRequest(info.syntax, info, tmp_path))

    def test_every_row_says_how_a_dataset_is_named_and_what_it_is(self) -> None:
        assert self.kind.names
        syntaxes = [info.syntax for info in self.kind.names]
        assert len(set(syntaxes)) == len(syntaxes)
        for info in self.kind.names:
            assert info.prefix
            assert not set("[]*?") & set(info.syntax)
            assert info.names(info.syntax)
            assert info.sentence.endswith(".")
            assert info.images is None or info.images > 0
            assert info.classes is None or info.classes >= 0

    def test_other_names_are_not_of_the_kind(self) -> None:
        for info in self.kind.names:
            others = [f"{info.prefix}:", f"{info.syntax}x", "x", ""]
            if info.subset.isupper():
                assert info.names(f"{info.prefix}:x")
                others = [f"{info.prefix}:", info.prefix, f"{info.prefix}x:x", "x", ""]
            assert not [name for name in others if info.names(name)]

    def test_what_is_downloaded_can_be_verified(self) -> None:
        for info in self.kind.names:
            for file in info.files:
                assert file.url
                assert file.name
                assert file.bytes
                assert file.sha256 or file.md5

    def test_the_declaration_is_light(self) -> None:
        modules = "{'torch', 'numpy', 'PIL'} & set(sys.modules)"
        code = f"import sys, {self.kind.open.__module__}; sys.exit(bool({modules}))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_labels_are_indices_of_classes(self, opener: Callable[[], ImageDataset]) -> None:
        dataset = opener()
        labels = dataset.labels()
        assert len(labels) == len(dataset) >= 3
        assert len(set(dataset.class_names)) == len(dataset.class_names)
        allowed = {None, *range(len(dataset.class_names))}
        assert set(labels[:10_000]) <= allowed

    def test_opened_again_it_is_the_same(self, opener: Callable[[], ImageDataset]) -> None:
        first, again = opener(), opener()
        assert first.name == again.name
        assert first.class_names == again.class_names
        assert list(first.labels()) == list(again.labels())
        assert first.stat_signature() == again.stat_signature()
        assert first.fingerprint() == again.fingerprint() == first.fingerprint()
        assert len(bytes.fromhex(first.fingerprint())) == 32

    @pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: str(transform.size))
    def test_samples_have_the_shape_of_the_transform(
        self, opener: Callable[[], ImageDataset], transform: InputTransform
    ) -> None:
        dataset = opener()
        samples = _first(dataset, transform)
        assert [sample.position for sample in samples] == list(range(len(samples)))
        assert [sample.label for sample in samples] == list(dataset.labels()[: len(samples)])
        assert len({sample.name for sample in samples}) == len(samples)
        for sample in samples:
            assert (sample.pixels is None) == (sample.error is not None)
            if sample.pixels is not None:
                assert sample.pixels.shape == (3, transform.size, transform.size)
                assert sample.pixels.dtype in (torch.uint8, torch.float32)

    def test_the_order_is_the_same_from_any_position(
        self, opener: Callable[[], ImageDataset]
    ) -> None:
        dataset, transform = opener(), TRANSFORMS[0]
        samples = _first(opener(), transform)
        assert _content(_first(dataset, transform)) == _content(samples)
        assert _content(_first(dataset, transform, start=1)) == _content(samples[1:])
        picked = dataset.pick(transform, [2, 0, 1])
        assert _content(picked) == _content([samples[2], samples[0], samples[1]])


def _first(dataset: ImageDataset, transform: InputTransform, start: int = 0) -> list[Sample]:
    """Return the samples from a position on, up to the eighth."""
    return list(islice(dataset.samples(transform, start), 8 - start))


def _content(samples: Iterable[Sample]) -> list[tuple[Sample, object]]:
    """Return samples without pixels, and their pixels as lists, so that both can be compared."""
    return [
        (replace(sample, pixels=None), None if sample.pixels is None else sample.pixels.tolist())
        for sample in samples
    ]
