"""Agreement of clusters with what networks are called: families and groups of families."""

from __future__ import annotations

import pandas as pd

from analysis.text import number

#: What clusters are compared with, where the table has it.
LABELS = ("family", "family_group")

_COLUMNS = ("label", "n", "clusters", "labels", "adjusted_rand", "adjusted_mutual_information")


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Return how far clusters agree with labels, beyond what chance gives.

    Parameters
    ----------
    table : pandas.DataFrame
        One row a model: ``source``, ``architecture``, ``cluster`` and the columns of ``LABELS``.
        Models without a label are left out of its row, and those whose architecture is alone with
        theirs: a family of one architecture is no family.

    Returns
    -------
    pandas.DataFrame
        One row a label: ``label``, ``n`` (models that have it), ``clusters`` and ``labels``
        (how many different ones these models are in and have), ``adjusted_rand`` [1]_ and
        ``adjusted_mutual_information`` [2]_ (arithmetic mean of the entropies): 1 for the same
        partition, about 0 for a random one, NaN below two models and where all models have one
        label.

    References
    ----------
    .. [1] L. Hubert, P. Arabie, "Comparing partitions", Journal of Classification 2 (1985),
       193-218, doi:10.1007/BF01908075.
    .. [2] N. X. Vinh, J. Epps, J. Bailey, "Information theoretic measures for clusterings
       comparison", JMLR 11 (2010), 2837-2854.
    """
    rows = [_row(table, label) for label in LABELS if label in table]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _row(table: pd.DataFrame, label: str) -> dict[str, object]:
    from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

    # Whatever its weights: those of one architecture are alike.
    architecture = table["source"].astype(str) + ":" + table["architecture"].astype(str)
    several = architecture.groupby(table[label]).transform("nunique") > 1
    known = table[several.fillna(False)]
    # As codes: scikit-learn guesses what kind of labels it has, and not always the same for both.
    clusters, names = (pd.factorize(known[column])[0] for column in ("cluster", label))
    enough = known[label].nunique() > 1
    return {
        "label": label,
        "n": len(known),
        "clusters": known["cluster"].nunique(),
        "labels": known[label].nunique(),
        "adjusted_rand": adjusted_rand_score(names, clusters) if enough else float("nan"),
        "adjusted_mutual_information": (
            adjusted_mutual_info_score(names, clusters) if enough else float("nan")
        ),
    }


def agreement_words(table: pd.DataFrame) -> str:
    """Return agreements as a clause, such as ``with families at ...``; empty where there is none.

    Parameters
    ----------
    table : pandas.DataFrame
        From ``agreement``.
    """
    names = {"family": "families", "family_group": "groups of families"}
    return " and ".join(
        f"with {names.get(row['label'], row['label'])} at an adjusted Rand index of"
        f" {number(row['adjusted_rand'])} (adjusted mutual information"
        f" {number(row['adjusted_mutual_information'])})"
        for row in table.dropna(subset="adjusted_rand").to_dict("records")
    )
