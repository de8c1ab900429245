"""The results of measuring: a site, its score on a batch, and a batch's scores.

Free of torch, so that storing and reading need no numerics library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from survey.column_fields import column, nested, optional

#: Whether a site's output goes on as a value, or only scales another one.
Role = Literal["main", "gate"]

#: What became of a site's score. Only ``ok`` rows carry an affinity.
Status = Literal["ok", "constant", "nonfinite", "out_of_range", "failed"]

#: What a reader should know about a row, whatever its status.
Flag = Literal["constant", "dead", "nonfinite", "few_images", "ridge", "rounding"]


#: Every flag with its meaning, in the order in which they are counted. The store's views name them:
#: another one comes with a migration.
FLAGS: Mapping[Flag, str] = {
    "constant": "input or output is the same for every image, so there is no score",
    "dead": "the output is zero for every image, so there is no score",
    "nonfinite": "some values are not finite, so there is no score",
    "ridge": "the absolute ridge, not the network, decides the score: a variance is below 1e-4",
    "rounding": "rounding of the forward pass could move the score by over 1e-4",
    "few_images": "no more images than channels, so that the score depends on their number and"
    " is mostly too high",
}

#: Flags of scores that are not the network's: no question counts them.
LEFT_OUT: frozenset[Flag] = frozenset({"ridge"})

#: Flags of scores that count, with a mark.
_MARKS: frozenset[Flag] = frozenset({"rounding", "few_images"})


def left_out_for(flags: tuple[Flag, ...]) -> tuple[Flag, ...]:
    """Return which flags of a site say why it is left out: marks only where there is no other."""
    return tuple(flag for flag in flags if flag not in _MARKS) or flags


def flag_sentences(
    counts: Mapping[str, int],
    what: str = "marked",
    *,
    sites: int | None = None,
    enough: int | None = None,
) -> list[str]:
    """Return a sentence for each flag that sites bear, from how many bear it.

    Parameters
    ----------
    counts : mapping of str to int
        Sites by flag.
    what : str
        What is done about them.
    sites : int, optional
        Of how many.
    enough : int, optional
        Images a score with which none of them would bear ``few_images``.
    """
    of = "" if sites is None else f" of {sites}"
    more = {"few_images": f"; {enough} images a score would do"} if enough else {}
    return [
        f"{counts[flag]}{of} {'site' if (sites or counts[flag]) == 1 else 'sites'} {what} as"
        f" {flag}: {meaning}{more.get(flag, '')}."
        for flag, meaning in FLAGS.items()
        if counts.get(flag)
    ]


@dataclass(frozen=True, slots=True)
class Site:
    """One activation site: one call of one activation function in a forward pass."""

    site_name: str = column("Module path and call number, such as layer1.0.relu#2.")
    activation: str = column("The activation function, such as relu.")
    call: int = column("Which call of this activation at this path, counting from 1.")
    #: Parallel branches share a depth.
    graph_depth: int = column("Activations on the longest path to here, this one included.")
    #: Such as the gates of squeeze-excite and GLU.
    role: Role = column("main, or gate where the output only scales another value.")
    #: 1 outside of blocks.
    repeat: int = column("Which of its block's activation calls, counting from 1.")
    layout: str = column("Meaning of the tensor's axes, such as N,C,*,*.")
    spatial: str = column("Sizes of the axes pooled, such as 56x56; else empty.")


_OF_SITE = frozenset(field.name for field in dataclasses.fields(Site))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteScore:
    """One row: one activation site on one batch of images, with every metric.

    The fields of ``place`` and the values of ``metrics`` are attributes of the row as well, such
    as ``row.site_name`` and ``row.cka``. The metrics' definitions, ranges and units are declared in
    ``survey.metrics``.
    """

    batch: int = column("Which batch of images of the run, counting from 0.")
    site: int = column("Which activation call, counting from 0 in execution order.")
    #: Which call of which activation it is, and where in the network.
    place: Site
    #: None where the site could not be pooled.
    channels: int | None = column("Channels of the site: columns of the pooled pair.")
    images: int = column("Images of the score: rows of the pooled pair.")
    affinity: float | None = None
    status: Status = column("ok, constant, nonfinite, out_of_range or failed.")
    reason: str | None = optional("Why there is no score, in a sentence.")
    raw_affinity: float | None = optional("What the formula gave, also where it left [0, 1].")
    #: The value of every metric but the affinity, by name; None where it has none.
    metrics: Mapping[str, float | None]
    input_variance: float | None = optional("Mean over channels of the pooled input's variance.")
    output_variance: float | None = optional("Mean over channels of the pooled output's variance.")
    constant_fraction: float | None = optional("Fraction of channels constant over the images.")
    flags: tuple[Flag, ...] = column(f"What to know: {', '.join(FLAGS)}.", default=())
    #: Empty where the pair itself is not finite or not poolable, which ``reason`` explains.
    notes: tuple[str, ...] = column(
        "Why a metric has no value: its name and a reason, one each.", default=()
    )

    def __getattr__(self, name: str) -> Any:
        """Return a field of the site or the value of a metric."""
        if name in _OF_SITE:
            return getattr(self.place, name)
        # While a row is unpickled it has no metrics yet.
        if name not in SiteScore.__slots__ and name in self.metrics:
            return self.metrics[name]
        raise AttributeError(f"a row has no {name!r}", name=name, obj=self)

    def __dir__(self) -> Iterable[str]:
        return {*object.__dir__(self), *_OF_SITE, *self.metrics}


@dataclass(frozen=True, slots=True)
class BatchScores:
    """The results of one batch of images: a score for each site, and the accuracy counts."""

    batch: int = column("Which batch of images of the run, counting from 0.")
    #: Fewer than ``images_per_score`` only in the last one.
    images: int = column("Images in the batch; a last, partial one is not scored.", "BIGINT")
    #: One row a site in execution order; empty for a partial last batch.
    scores: tuple[SiteScore, ...] = nested()
    labelled: int = column("Images whose label fits the network's outputs.", "BIGINT")
    top1_hits: int = column("Labelled images whose label is the largest output.", "BIGINT")
    top5_hits: int = column("Labelled images whose label is among the five largest.", "BIGINT")
    seconds: float = column("Seconds from the first image in to the last score out.")
