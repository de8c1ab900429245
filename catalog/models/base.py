"""What a model source offers, and what is known of one architecture."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from survey.errors import CatalogError, UnknownName

if TYPE_CHECKING:
    from torch import nn

#: ImageNet's channel means and deviations, on pixels scaled to [0, 1].
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

#: The first bytes of a file's sha256, which PyTorch's projects put into its name. What two names
#: of timm end in are nine digits, of which nobody says what they are.
_HASHED_NAME = re.compile(r"-((?:[0-9a-f]{2}){4,})\.pth$")


@dataclass(frozen=True, slots=True)
class InputTransform:
    """How an image file becomes a network's input. Pixels stay uint8 until the device."""

    #: Side of the square the network sees, in pixels.
    size: int
    #: Length the shorter side is resized to before the centre crop, in pixels.
    resize: int
    #: How resizing interpolates.
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    #: Per-channel mean subtracted from pixels in [0, 1]: three, or one for grey.
    mean: tuple[float, ...] = IMAGENET_MEAN
    #: Per-channel deviation divided by, as many.
    std: tuple[float, ...] = IMAGENET_STD
    #: How a picture becomes a square: ``center`` keeps its proportions, and the crop cuts off what
    #: is left over; ``squash`` resizes both sides to ``resize``, whatever the proportions.
    crop: Literal["center", "squash"] = "center"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image as the network takes it: channels and both sides."""
        return len(self.mean), self.size, self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """An accuracy that somebody published for a set of weights."""

    #: Fraction recognised first, in [0, 1].
    top1: float
    #: Fraction recognised within five guesses, in [0, 1]; None where it was not published.
    top5: float | None = None
    #: The dataset it was reported for, by our name, such as ``imagenet`` (its validation images).
    dataset: str
    #: What classified: ``supervised`` (the network itself), ``linear``, ``knn``, ...; only the
    #: first is what a run measures.
    protocol: str = "supervised"
    #: Side of the images it was measured at, in pixels.
    image_size: int | None = None
    #: Where it was published.
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file somewhere else, and what is known of its content."""

    #: Where it is: ``https://...``, or ``hf://OWNER/REPOSITORY[@REVISION]/FILE`` on the
    #: model hub.
    url: str
    #: What it is called there. Never a key: different files share names.
    name: str
    #: Its size, where it is known.
    bytes: int | None = None
    #: Its size to within a kilobyte, where its publisher rounds it.
    about_bytes: int | None = None
    #: Its whole sha256 (hex), where it is known.
    sha256: str | None = None
    #: The first digits of its sha256, which some publishers put into its name.
    sha256_prefix: str | None = None
    #: Its md5 (hex), or the first digits, where its publisher gives that alone.
    md5: str | None = None
    #: Terms it is offered under, as its publisher words them; None where there are none.
    licence: str | None = None

    @classmethod
    def at(cls, url: str, **facts: Any) -> RemoteFile:
        """Return the file at an address, with the name and the hash that end the address."""
        hashed = _HASHED_NAME.search(url)
        prefix = hashed[1] if hashed else None
        return cls(url=url, name=url.rpartition("/")[2], sha256_prefix=prefix, **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """How a file's keys become a network's keys."""

    #: Keys that lead from the top of the file to the weights, such as ``("state_dict",)``; empty
    #: where they are at the top or under one of the usual wrappers.
    container: tuple[str, ...] = ()
    #: What every wanted key begins with, such as ``module.encoder_q.``; keys that do not are left
    #: out. Empty where all keys are the network's, or share one of the usual prefixes.
    prefix: str = ""
    #: Globs over keys, the prefix taken off, that are left out: heads, queues, prototypes.
    drop: tuple[str, ...] = ()
    #: What keys of the classifier begin with in the file, without the prefix, and in the network.
    moved: tuple[str, str] = ("", "")
    #: Whether the file has the network's classifier. Without it the classifier is replaced by an
    #: identity: what the network then returns are features, and accuracy means nothing.
    classifier: bool = True
    #: Other forms the file may have, tried in this order; each says its container, prefix and drop.
    alternatives: tuple[KeyRules, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One set of weights that somebody published: what it is, where it is, what is known of it."""

    #: The source that knows it: ``torchvision``, ``timm`` or ``ssl``.
    source: str
    #: Its name within the source: ``resnet50/IMAGENET1K_V2``, ``resnet50.a1_in1k``, ``swav_800``.
    name: str
    #: Full name of the architecture, such as ``torchvision:resnet50``.
    architecture: str
    #: Its name among the architecture's weights: ``IMAGENET1K_V2``, ``a1_in1k``, ``swav_800``.
    tag: str
    #: How images are prepared for it.
    transform: InputTransform
    #: The file; None where no address is known.
    file: RemoteFile | None = None
    #: How the file's keys become the network's.
    rules: KeyRules = KeyRules()
    #: Number of outputs, where it differs from the architecture's.
    classes: int | None = None
    #: Published accuracies, the best known first.
    reported: tuple[Reported, ...] = ()
    #: Whether it is what the architecture's name alone stands for.
    default: bool = False
    #: How it was trained, in a few words.
    recipe: str | None = None
    #: Address of the training recipe or the paper.
    recipe_url: str | None = None
    #: Why it cannot be loaded; None where it can.
    refusal: str | None = None
    #: How sure these facts are, and where they come from.
    evidence: str = ""
    #: What else a reader should know.
    notes: str = ""
    #: Builds the network these weights are for, where the architecture's own ``build`` may give
    #: another input size or number of outputs; None where it is the same.
    build: Callable[[], nn.Module] | None = field(default=None, repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """Source and name, such as ``torchvision:resnet50/IMAGENET1K_V2``."""
        return f"{self.source}:{self.name}"


@dataclass(frozen=True, slots=True)
class Architecture:
    """One network structure by name."""

    #: The source that knows it, such as ``torchvision``.
    source: str
    #: Its name within the source, such as ``resnet50``.
    name: str
    #: The family it belongs to, such as ``ResNet``.
    family: str
    #: Number of outputs.
    classes: int
    #: How images are prepared for it.
    transform: InputTransform
    #: Whether weights come with this package (checkpoint ``bundled``).
    bundled: bool = False
    #: Whether building it gives its weights too (checkpoint ``built``).
    brings_weights: bool = False
    #: The module of its source that defines it, such as ``vision_transformer``.
    module: str | None = None
    #: Parameters and billions of multiply-adds as published; None where not published.
    published_parameters: int | None = None
    published_gflops: float | None = None
    #: sha256 of the user's code that defines it; None where an installed package does.
    code_sha256: str | None = None
    #: Builds the network with its ordinary random initialisation.
    build: Callable[[], nn.Module] = field(repr=False, compare=False, kw_only=True)
    #: Builds it with another number of outputs; None where it has its own alone.
    build_with: Callable[[int], nn.Module] | None = field(
        default=None, repr=False, compare=False, kw_only=True
    )

    @property
    def full_name(self) -> str:
        """Source and name, such as ``torchvision:resnet50``."""
        return f"{self.source}:{self.name}"


def failing(architecture: Architecture, problem: Exception) -> CatalogError:
    """Return the error that a network fails on images of its own shape."""
    return CatalogError(
        f"{architecture.full_name} fails on images of"
        f" {' x '.join(map(str, architecture.transform.shape))}:"
        f" {type(problem).__name__}: {problem}",
        hint="mend the network, or the input that it declares: its size, and one mean and std if it"
        " takes grey images",
    )


class ModelSource(Protocol):
    """A place architectures come from. One module a source; listed in ``catalog.models``.

    A source that inherits from this class has no architectures and no weights until it says so.
    """

    #: The prefix of its names.
    name: str

    def names(self) -> list[str]:
        """Return every architecture's name, sorted, without importing torch where possible."""
        return []

    def get(self, name: str) -> Architecture:
        """Return one architecture; raise UnknownName for a name not in the source."""
        raise UnknownName(f"{self.name} architecture", name, self.names())

    def published(self) -> Sequence[Published]:
        """Return all published weights it knows of, sorted by name; empty where there are none."""
        return ()
