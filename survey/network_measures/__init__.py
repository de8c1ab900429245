"""The measures of a whole network, a file each."""

from __future__ import annotations

import importlib

from survey.network_measures.base import NetworkMeasure, NetworkQuantity

#: The files of this folder that declare a measure.
_FILES = (
    "path_length",
    "active_fraction",
    "linearisation",
    "nonlinearity_coefficient",
    "intrinsic_dimension",
    "region_density",
    "hamming_density",
    "absolute_deviation",
)

#: Every measure.
MEASURES: tuple[NetworkMeasure, ...] = tuple(
    importlib.import_module(f"survey.network_measures.{name}").MEASURE for name in _FILES
)

#: Every number that they give, in order.
NETWORK_QUANTITIES: tuple[NetworkQuantity, ...] = tuple(
    quantity for measure in MEASURES for quantity in measure.quantities
)
