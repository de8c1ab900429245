"""Predictors of accuracy: statistics of signatures and characteristics, a point an architecture.

Checkpoints of one architecture are alike in all of these, and in their accuracy: as many points
they would pass for as many networks. So a point is an architecture, with the mean over its
checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.choices import Accuracy
from analysis.data.checkpoint_means import checkpoint_means
from analysis.data.families import families_of
from analysis.data.model_names import measured_on
from analysis.data.random_weights import trained
from analysis.data.run_tags import column_of_numbers
from analysis.data.validation import MODELS, require_choice, require_columns

#: Statistics of a signature, by the paper's names (its Section 4 and Figure 4).
STATISTICS = ("mean", "median", "min", "max", "std", "max/mean", "max/median")

#: What else is known of a model, and may explain its accuracy.
CHARACTERISTICS = ("depth", "parameters", "gflops")

#: Which sites each kind of statistic is taken over.
_ROLES = {"signature": ("main", "gate"), "gates": ("gate",), "main": ("main",)}

#: The kinds of predictor; the best of each kind is picked by itself.
KINDS = (*_ROLES, "characteristic")

#: The kind of those that the user names.
GIVEN = "given"

#: What is read of signatures and of models.
NEEDED_OF_SITES = ("run_id", "role", "affinity")
NEEDED_OF_MODELS = (
    *("run_id", "model", "source", "architecture", "family", "family_group"),
    *("checkpoint", "dataset", "pooling", "measured_top1", "reported_top1", *CHARACTERISTICS),
)

#: What the points of one regression have in common, and what makes one of them.
GROUP = ("family_group", "dataset")
_POINT = (*GROUP, "source", "architecture")


def predictors(
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    accuracy: Accuracy,
    given: Sequence[str] = (),
) -> pd.DataFrame:
    """Return what is regressed; its parameters are those of ``regressions``.

    Returns
    -------
    pandas.DataFrame
        One row an architecture, group of families and dataset: ``family_group``, ``dataset``,
        ``source``, ``architecture``, ``model`` (the label of its only run with an accuracy; of
        several, the architecture), ``family`` (of ``analysis.data.families``), ``measured`` and
        ``reported`` (how many checkpoints with such an accuracy), and means over these: ``top1`` (a
        fraction) and a column ``kind:predictor`` for each predictor, NaN where one of these
        checkpoints has none.

    Raises
    ------
    UnknownName
        If a given predictor is neither a column nor a tag of any run.
    SettingsError
        If it has no number.
    """
    require_columns(signatures, NEEDED_OF_SITES)
    require_columns(models, NEEDED_OF_MODELS, MODELS)
    require_choice("accuracy", accuracy, Accuracy)
    known = models.set_index("run_id")
    known = known[known.index.isin(signatures["run_id"].unique()) & trained(known["checkpoint"])]
    scored = signatures[signatures["affinity"].notna()]
    by_kind = [
        statistics(scored[scored["role"].isin(roles)]).add_prefix(f"{kind}:")
        for kind, roles in _ROLES.items()
    ]
    others = known[list(CHARACTERISTICS)].astype("float64").add_prefix("characteristic:")
    ours = {f"{GIVEN}:{name}": column_of_numbers(known, name, "regressed on it") for name in given}
    others = others.assign(**ours)
    accuracies = known_accuracies(known, accuracy)
    # A checkpoint without an accuracy has no part in the means of its architecture. Any other has:
    # a predictor and the accuracies are means over the same checkpoints.
    counts = accuracies["top1"].notna()
    numbers = others.join([*by_kind, accuracies["top1"]])[counts]
    # Of no run at all the datasets are texts, too.
    on = pd.Series(map(measured_on, known.to_dict("records")), known.index, dtype=str)
    runs = known[[*_POINT, "checkpoint", "model", "family"]].assign(dataset=on)
    point = list(_POINT)
    family = runs["family"].replace("", None).groupby([runs[name] for name in point]).first()
    scored = runs[counts].join([numbers, accuracies[["measured", "reported"]]])
    means = checkpoint_means(scored, point, list(map(str, numbers)), skipna=False)
    points = means.reindex(family.index)
    # Repeats of a checkpoint are one of it.
    single = scored.drop_duplicates([*point, "checkpoint"]).groupby(point)
    checkpoints = single[["measured", "reported"]].sum().reindex(family.index, fill_value=0)
    architectures = points.index.get_level_values("architecture")
    names = scored.groupby(point)["model"].agg(["first", "size"]).reindex(family.index)
    only = names["first"].where(names["size"] == 1, architectures)
    counted = points.join(checkpoints.astype("int64"))
    result = counted.assign(model=only, family=family).reset_index()
    return result.assign(family=families_of(result))


def statistics(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the statistics of signatures that the paper regresses on.

    Parameters
    ----------
    scores : pandas.DataFrame
        ``run_id`` and ``affinity``, one row a site with a score.

    Returns
    -------
    pandas.DataFrame
        One row a run, by its id, and a column for each of ``STATISTICS``; the deviation is over n,
        as the scores are all there are. NaN where one is not defined.
    """
    by_run = scores.groupby("run_id")["affinity"]
    table = by_run.agg(["mean", "median", "min", "max"]).assign(std=by_run.std(ddof=0))
    for name in ("mean", "median"):
        table[f"max/{name}"] = table["max"] / table[name].where(table[name] > 0)
    return table[list(STATISTICS)]


def known_accuracies(known: pd.DataFrame, accuracy: Accuracy) -> pd.DataFrame:
    """Return each run's ``top1``, and whether it is ``measured`` or ``reported``."""
    other = "reported" if accuracy == "measured" else "measured"
    first, second = (known[f"{name}_top1"].astype("float64") for name in (accuracy, other))
    top1 = first.fillna(second)
    sources = {accuracy: first.notna(), other: first.isna() & second.notna()}
    return pd.DataFrame({"top1": top1, **sources})
