"""Frames of what ``survey.measure`` yields, without a home."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import chain

import pandas as pd

from survey.errors import InputError
from survey.results import Site, SiteScore


def score_frame(rows: Iterable[SiteScore]) -> pd.DataFrame:
    """Return the scores of each batch, one row a site and batch.

    Parameters
    ----------
    rows : iterable of SiteScore
        What ``survey.measure`` yields; a generator is used up.

    Returns
    -------
    pandas.DataFrame
        The fields of ``SiteScore`` and of its site, and a column a metric.

    Raises
    ------
    InputError
        If there is no row.
    """
    records = []
    for row in rows:
        values = {each.name: getattr(row, each.name) for each in dataclasses.fields(row)}
        place, metrics = values.pop("place"), values.pop("metrics")
        records.append({**values, **dataclasses.asdict(place), **metrics})
    if not records:
        raise InputError("no rows were given: a generator gives its rows once")
    return pd.DataFrame.from_records(records)


def signature_frame(rows: Iterable[SiteScore], model: str = "network") -> pd.DataFrame:
    """Return the signature, one row a site, in the columns of ``analysis.signatures``.

    Parameters
    ----------
    rows : iterable of SiteScore
        What ``survey.measure`` yields for one network; a generator is used up.
    model : str
        Name of the network in tables and figures.

    Returns
    -------
    pandas.DataFrame
        The site, ``affinity`` with ``affinity_std`` and ``affinity_se`` over ``batches``, the mean
        of every other metric, ``flags``, ``relative_depth`` in [0, 1]; ``run_id``, ``model``
        and ``architecture`` are the name. ``analysis.signature_chart`` draws it.

    Raises
    ------
    InputError
        If there is no row.
    """
    listed = list(rows)
    scores = score_frame(listed)
    names: list[str] = list(dict.fromkeys(chain.from_iterable(row.metrics for row in listed)))
    sites = scores.groupby("site", sort=True)
    affinity = sites["affinity"]
    spread = pd.DataFrame(
        {
            "affinity": affinity.mean(),
            "affinity_std": affinity.std(),
            "affinity_se": affinity.sem(),
            "batches": affinity.count(),
        }
    )
    places: list[str] = [*(each.name for each in dataclasses.fields(Site)), "channels"]
    frame = sites[places].first()
    frame = frame.join(spread).join(sites[names].mean())
    frame["flags"] = [tuple(dict.fromkeys(chain(*each))) for _, each in sites["flags"]]
    frame = frame.reset_index()
    frame["relative_depth"] = frame["site"] / max(frame["site"].max(), 1)
    frame = frame.assign(run_id=model, model=model, architecture=model, family="own")
    images = listed[0].images
    frame.attrs = {"selection": model, "conditions": [f"{images} images a score"]}
    return frame
