"""The values that options of analyses take, and the defaults that several places share."""

from __future__ import annotations

from typing import Literal

#: Which sites: all, those of the main path, or those whose output only scales another value.
Role = Literal["all", "main", "gate"]

#: What is done about curves of unequal lengths, beside what the warping itself does: nothing, a
#: distance per step of the path, or curves over relative depth.
Normalisation = Literal["raw", "length", "relative"]

#: The normalisation of the command line, the report and Python where no other is named. Raw
#: distances, the paper's, mostly tell deep networks from shallow ones.
NORMALISATION: Normalisation = "relative"

#: The smallest difference of a mean affinity that counts as drift by default: a hundred times what
#: other threads or another micro-batch may move a score by.
DRIFT_TOLERANCE = 0.001

#: The chance of any false alarm among all sites that are tested for drift, by default.
DRIFT_LEVEL = 0.001

#: How the distance of two clusters follows from those of their members.
Linkage = Literal["average", "complete", "single"]

#: Whose correlations: of each model, means over each family, or means over all.
Level = Literal["model", "family", "all"]

#: The paper's names of its five metrics by the columns that hold them, in the order of its tables:
#: linear CKA, Frobenius norm, change of sparsity, change of entropy, R2 of a linear fit
#: (Appendix G of the paper).
PAPER_NAMES = {
    "cka": "cka",
    "norm": "norm",
    "sparsity_change": "sparsity",
    "entropy_change": "entropy",
    "r2": "r2",
}
PAPER_METRICS = tuple(PAPER_NAMES)

#: Which top-1 accuracy is explained where a model has both.
Accuracy = Literal["measured", "reported"]
