"""The page of measures of whole networks, made from the declarations: ``docs/measures.md``.

``python -m docs.generate.measures_page`` writes it to standard output.
"""

from __future__ import annotations

import sys

from docs.generate.metrics_page import range_text
from docs.generate.tables import markdown_table
from survey.network_measures import (
    MEASURES,
    absolute_deviation,
    active_fraction,
    hamming_density,
    intrinsic_dimension,
    linearisation,
    region_density,
)
from survey.network_measures.base import NetworkMeasure, SampledMeasure
from survey.network_measures.nonlinearity_coefficient import BLOCK, IMAGES, RESAMPLES, SEED
from survey.network_measures.path_length import CONVENTIONS
from survey.regions import MOST_SIDE

_HEAD = """# Measures of whole networks

Numbers of a network as a whole, beside the signature of its sites. They are computed where they
are asked for:

```
survey run -m small:digits_resnet14 --measures path_length --measures nonlinearity_coefficient
survey plan zoo.toml --measures path_length    # or measures = ["path_length"] at the file's top
survey show RUN
survey sql "SELECT * FROM network_scores"
```

They are no part of a run's id. A finished run that lacks one is planned as `measures missing`:
its network is loaded and measured, and its scores stay as they are; so is one whose values come
from another version of the measure. What cannot be computed is a row of `network_scores` with
status `undefined` and a reason. A measure that is a curve has its points in `network_curves`.

One of the structure alone reads no image. Others read the first images of the dataset that can be
decoded, as many as the table says, whatever part of the dataset the rest of the run is about.
`survey plan` states what is missing (column `measures`) and its seconds (`measure_seconds`), of
which the forward passes are estimated from the network's GFLOPs; a scan shows how far a measure is.
Where the memory is not enough it is computed again with half as many images at once. One that has
no room for a single image, or whose computation ends as many workers in a row as `--losses` allows
(the last with one image at once), is `undefined` with that as its reason; the run goes on without
it and keeps its scores. What else ends a measure that is added to a finished run leaves the run
done, is shown by `survey status`, and is tried again with the next scan that asks for it.

In Python, `survey.measure_network(model, (3, 224, 224), ["path_length"])` returns the same numbers,
each with its details; for measures that read images a fourth argument has batches of them.
`survey correlate --measures` compares them with signatures and accuracy
([analysis.md](analysis.md)).
"""

_PATH_LENGTH = """## path_length

The average path length of Mehmeti-Göpel and Disselhoff 2023 (arXiv:2211.17180, Figure 1): how
many activations a path from the input to an output goes through. A path goes through one channel of
every layer, and chooses among the terms of a sum and the parts of a concatenation. It is a number
of the graph alone: no image is read, weights do not matter, and every activation counts, whatever
it does on data. What the signature calls a site is an activation here, those written by hand
included.

All paths alike, the long ones are by far the most: in a residual network `path_length` is nearly
the number of activations. The random walk of `path_length_normalised` takes each way on with
equal chance, a block and the shortcut around it alike, and tells networks apart.

A convolution sums over the channels of its group, a linear layer over all; pooling, sums over
positions or tokens, normalisations, softmax and what only moves values change nothing. A sum that
nothing but the next sum reads, scaled or moved on the way or not, is one sum of all its terms, and
so is that of stacked values. Values that no path leads to (a class token, padding, constants) do
not count. The paper leaves two things undefined; `details` says which of these a value rests on:
"""

_UNKNOWN = """
A call whose paths are not known, such as a Fourier transform, a matrix product of two values
outside of attention, weights that are made from the images, or a recurrent layer, leaves the
network without a value, with the call as the reason. A product of two values element by element is
a gate. [path-length.md](path-length.md) has the values of torchvision's architectures.
"""

_ACTIVE = f"""## active_fraction

How many activations act on the data at all: of this survey, in no paper. Over images and positions
every channel of every site has a squared correlation between the input and the output of its
activation. One below {active_fraction.AFFINE} is active; one with at least that is affine, as a
ReLU whose inputs are nearly all positive; one whose output is the same everywhere, but for
rounding, is constant, as a ReLU whose inputs are all negative. `active_fraction` and
`constant_fraction` are shares of the channels of all sites together, of which `details` has the
numbers site by site. `active_path_length` and `active_path_length_normalised` are path lengths in
which all other channels count as linear.

Channels are those of the tensor that is activated: those a convolution made, the features of a
token. The gate of a gated linear unit is its activation. Gaussian inputs give a ReLU a squared
correlation of 0.73, a GELU 0.72, tanh 0.93, a sigmoid 0.98: a sigmoid or a tanh whose inputs
vary little counts as affine.
"""

_LINEARISATION = f"""## linearisation

Accuracy against path length, as more and more channels act affinely: of this survey, in no paper,
and without training. Each channel's activation has the affine map that is nearest to it in least
squares on the data. The {linearisation.PERCENTAGES[1]} % of all channels with the greatest squared
correlation are replaced by their maps, then {linearisation.PERCENTAGES[2]} % and so on to all;
constant ones, whose map is a constant, come first. `network_curves` has the accuracy of each of
these networks at its normalised path length, in which replaced channels count as linear, and its
binomial standard error. Images at even places fit the maps, once, on the network as it is; those at
odd places that have a label are classified.

`linearised_path_length` is where the accuracy first falls below {linearisation.KEPT:.0%} of the
network's, between two points by a straight line; 0 where it never does. Its `standard_error` is the
deviation over {linearisation.RESAMPLES} resamples of the classified images; the maps are not fitted
again. What is not an activation stays: attention, layer norms, max-pooling, and the products of
gates. Without labels, or where the accuracy is not two standard errors above the share of the most
frequent class, there is no value.

The experiment of Mehmeti-Göpel and Disselhoff (arXiv:2211.17180) trains the network with a penalty
on every channel that is not linear, and so keeps its accuracy at shorter paths. The curves of the
bundled networks, and that experiment, are in [linearisation.md](linearisation.md).
"""

_COEFFICIENT = f"""## nonlinearity_coefficient

The nonlinearity coefficient of Philipp and Carbonell (arXiv:1806.00179): how far the outputs would
spread if each image's derivative held everywhere, over how far they do spread. A linear network has
1, whatever its input; of Gaussian input no network has less. Outputs are what the network returns,
before any softmax.

Of images k, i and j, which follow each other in a permutation of the {IMAGES} with seed {SEED}, the
product of the Jacobian at x_k with (x_i - x_j) / sqrt(2) is computed forward; where a call has no
forward derivative, in reverse from one random vector of outputs an image, which `details` says
(`direction`) and which widens the error. Neighbours share images, so that `standard_error` is the
deviation over {RESAMPLES} resamples of blocks of {BLOCK} neighbours, of numerator and denominator
together. Outputs that are the same for all images, that have no derivative, or that are not finite
leave it without a value.
"""

_DIMENSION = f"""## intrinsic_dimension

The dimension of the set on which the network's last features lie, by the two nearest neighbours of
each image (TwoNN: Facco and others 2017, doi:10.1038/s41598-017-11873-y). Where images lie evenly
around, the distances to the second and to the first neighbour have a ratio mu with
P(mu > m) = m^-d; d is the slope of -log(1 - F(mu)) over log(mu) through the origin, without the
greatest {intrinsic_dimension.DISCARDED:.0%} of the ratios. The features are the input of the last
convolution or linear layer that is called, each value a coordinate and nothing pooled; images with
the same features count once.

Few images lie far apart, across the bends and up to the edges of the set: the dimension is then too
low, all the more the greater it is. Of 1,000 points a square has 1.8 to 2.0, and of 2,000 a cube of
ten dimensions has 8.9. Compare networks on the same images. `standard_error` is d / sqrt(n / 2), as
neighbours share distances. Fewer than {intrinsic_dimension.FEWEST} images whose features differ
leave it without a value.
"""

_REGIONS = f"""## region_density

The linear regions of Gamba and others 2022 (arXiv:2202.11749) around images. Copies of an image,
moved along a circle, are the corners of a closed path of 8 lines
([linear-regions.md](linear-regions.md)). Along a line the number of times at which any unit
changes its piece is its density, one less than its regions: traced exactly, in float64. The value
is the mean over the lines of a path and then over paths, whose spread `standard_error` is.
`details` has the mean length of a line, as the network takes images, and the network's units;
those of max-pooling do not count among them, though their changes do.

A line with more than about {region_density.MOST_CHANGES} changes is divided into equal parts, and
one part drawn with seed {region_density.SEED} is traced: its density is the part's times their
number. The share of the lines that was traced is `traced` in `details`. The time is so bounded.
Images above {MOST_SIDE} pixels are refused even so: `hamming_density` has no such limit. What is
not piecewise linear, such as GELU or softmax, leaves the network without a value, with the call
as the reason.

## hamming_density

The same paths at any size, each line divided into {hamming_density.STEPS} steps: units whose
value is on the other side of a breakpoint after a step (Novak and others 2018, arXiv:1802.08760).
It is a lower bound: of a unit's crossings in a step one or none is seen, and max-pooling is not
looked at. `details` says how much steps miss: `with_half_the_steps` is what every second one
sees, and `missed` the difference, which is about what {hamming_density.STEPS} steps miss too, as
what is missed falls with their width. Units that change together count each, where
`region_density` counts them once.

## absolute_deviation

How far the outputs leave the straight line between the ends of a line, integrated over its length
by the trapezoid rule on {absolute_deviation.STEPS} steps, as the Euclidean norm over the outputs:
on the same paths, for every network, whatever its activations. It grows with the length of a line
and with the outputs. `absolute_deviation_relative` is divided by the length, and by the root of
the outputs' summed variances over the images, and compares networks; its `standard_error` has the
error of those variances in it. Outputs that are the same for all images leave it without a value.
"""


def markdown() -> str:
    """Return the page: what each measure gives, and how it counts."""
    head = ["measure", "column `measure`", "what it is", "formula", "range", "images", "source"]
    rows = [row for measure in MEASURES for row in _rows(measure)]
    conventions = "\n".join(f"- {name}: {text}." for name, text in CONVENTIONS.items())
    path_length = f"{_PATH_LENGTH}\n{conventions}\n{_UNKNOWN}"
    sections = [path_length, _ACTIVE, _LINEARISATION, _COEFFICIENT, _DIMENSION, _REGIONS.rstrip()]
    return "\n".join([_HEAD, markdown_table(head, rows), "", *sections, ""])


def _rows(measure: NetworkMeasure) -> list[list[str]]:
    return [
        [
            f"`{measure.name}`",
            f"`{quantity.name}`",
            quantity.sentence,
            f"`{quantity.formula}`",
            range_text(quantity.low, quantity.high),
            str(measure.images) if isinstance(measure, SampledMeasure) else "none",
            quantity.source,
        ]
        for quantity in measure.quantities
    ]


if __name__ == "__main__":
    sys.stdout.write(markdown())
