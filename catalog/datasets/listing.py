"""Every kind of dataset there is, by the names it goes by, and what a reader should know of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """One way to name a dataset."""

    #: How it is written; capitals stand for what the user fills in.
    syntax: str
    #: What it is, in a sentence.
    sentence: str
    #: Number of images; None where it depends on the files.
    images: int | None = None
    #: Number of classes, 0 where there are no labels; None where it depends on the files.
    classes: int | None = None
    #: Bytes that are downloaded for it; 0 where nothing is.
    download_bytes: int = 0
    #: Terms it is offered under, as its publisher words them; None where it does not say.
    licence: str | None = None
    #: Address of its publisher.
    source: str | None = None


_DIGITS = "https://doi.org/10.24432/C50P49"
_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar.html"
_FASHION = "https://github.com/zalandoresearch/fashion-mnist"
_IMAGENET = "https://image-net.org"
_IMAGENET_TERMS = "ImageNet terms of access: non-commercial research and education"

#: Every way to name a dataset, sorted by kind. Any of them may have a selection behind it:
#: ``NAME[:1000]``, ``NAME[:1000 stratified]``.
DATASETS = (
    DatasetInfo(
        syntax="cifar10",
        sentence="Test images of CIFAR-10: 32 x 32 photographs of animals and vehicles.",
        images=10_000,
        classes=10,
        download_bytes=170_052_171,
        source=_CIFAR,
    ),
    DatasetInfo(
        syntax="cifar10:train",
        sentence="Training images of CIFAR-10, from the same archive.",
        images=50_000,
        classes=10,
        download_bytes=170_052_171,
        source=_CIFAR,
    ),
    DatasetInfo(
        syntax="cifar100",
        sentence="Test images of CIFAR-100: 32 x 32 photographs with its 100 fine classes.",
        images=10_000,
        classes=100,
        download_bytes=168_513_733,
        source=_CIFAR,
    ),
    DatasetInfo(
        syntax="cifar100:train",
        sentence="Training images of CIFAR-100, from the same archive.",
        images=50_000,
        classes=100,
        download_bytes=168_513_733,
        source=_CIFAR,
    ),
    DatasetInfo(
        syntax="digits",
        sentence="All handwritten digits of scikit-learn, 8 x 8; no network is needed.",
        images=1_797,
        classes=10,
        licence="CC BY 4.0",
        source=_DIGITS,
    ),
    DatasetInfo(
        syntax="digits:heldout",
        sentence="The fifth of them that the bundled networks never saw.",
        images=355,
        classes=10,
        licence="CC BY 4.0",
        source=_DIGITS,
    ),
    DatasetInfo(
        syntax="digits:train",
        sentence="Those that the bundled networks were trained on.",
        images=1_442,
        classes=10,
        licence="CC BY 4.0",
        source=_DIGITS,
    ),
    DatasetInfo(
        syntax="fashion-mnist",
        sentence="Test images of Fashion-MNIST: 28 x 28 clothes, one channel repeated to three.",
        images=10_000,
        classes=10,
        download_bytes=4_427_250,
        licence="MIT",
        source=_FASHION,
    ),
    DatasetInfo(
        syntax="fashion-mnist:train",
        sentence="Training images of Fashion-MNIST.",
        images=60_000,
        classes=10,
        download_bytes=26_451_395,
        licence="MIT",
        source=_FASHION,
    ),
    DatasetInfo(
        syntax="folder:PATH",
        sentence="Pictures below a folder: one subfolder a class, or none and no labels.",
    ),
    DatasetInfo(
        syntax="imagenet",
        sentence="Validation images of ImageNet, put into datasets/imagenet of the home by hand.",
        images=50_000,
        classes=1_000,
        licence=_IMAGENET_TERMS,
        source=_IMAGENET,
    ),
    DatasetInfo(
        syntax="imagenet:PATH",
        sentence="The same in a folder: wnid subfolders, or the official archive and devkit.",
        images=50_000,
        classes=1_000,
        licence=_IMAGENET_TERMS,
        source=_IMAGENET,
    ),
    DatasetInfo(
        syntax="parquet:PATH",
        sentence="A Parquet file of images or a folder of them, in the model hub's layout.",
    ),
    DatasetInfo(
        syntax="random",
        sentence="Gaussian noise in the shape of images, each seeded by its position alone.",
        images=2_048,
        classes=0,
    ),
    DatasetInfo(
        syntax="random:IMAGES",
        sentence="Gaussian noise in the shape of so many images.",
        classes=0,
    ),
)
