"""Labels and tags of runs as columns: a tag is named ``tags.epoch`` wherever a column is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from analysis.data.tag_conditions import PREFIX, is_number
from analysis.text import missing
from catalog.tags import RunLabels
from survey.errors import SettingsError, UnknownName


def with_labels(
    runs: Iterable[Mapping[str, Any]], labels: Mapping[str, RunLabels]
) -> list[dict[str, Any]]:
    """Return rows of ``runs`` with their ``label``, None without one, and their ``tags``."""
    given = ((run, labels.get(run["run_id"], RunLabels())) for run in runs)
    return [{**run, "label": each.label, "tags": dict(each.tags)} for run, each in given]


def tag_names(runs: pd.DataFrame) -> list[str]:
    """Return the names of the tags that any row of ``analysis.models`` has, sorted."""
    return sorted({name for tags in runs.get("tags", ()) for name in tags})


def run_column(runs: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return a column of runs, or a tag of theirs as a column.

    Parameters
    ----------
    runs : pandas.DataFrame
        Rows of ``analysis.models`` or ``analysis.signatures``.
    name : str
        A column, such as ``year``, or a tag, such as ``tags.epoch``; ``epoch`` means the tag too,
        where there is no such column.

    Returns
    -------
    pandas.Series
        The values; of a tag None where a run has none.

    Raises
    ------
    UnknownName
        If there is no such column, and no run has such a tag.
    """
    if name in runs and name != "tags":
        return runs[name]
    tag, known = name.removeprefix(PREFIX), tag_names(runs)
    if tag not in known:
        if tag != name and not known:
            hint = "no run of the selection has tags: `survey tag` gives them"
            raise UnknownName("tag", tag, (), hint=hint)
        columns = [str(each) for each in runs if each != "tags"]
        raise UnknownName("column", name, [*(PREFIX + each for each in known), *columns])
    values = [tags.get(tag) for tags in runs["tags"]]
    return pd.Series(values, index=runs.index, dtype="object", name=name)


def numbers_of(values: pd.Series[Any]) -> pd.Series[float]:
    """Return a column as numbers, NaN where a value is none; a truth value is none."""
    known = values.map(lambda each: is_number(each) and not missing(each))
    return values.astype("object").where(known).astype("float64")


def column_of_numbers(runs: pd.DataFrame, name: str, use: str) -> pd.Series[float]:
    """Return a column or tag of runs as numbers, NaN where a value is none.

    Parameters
    ----------
    runs, name
        See ``run_column``.
    use : str
        What cannot be done without any, such as ``regressed on it``.

    Raises
    ------
    UnknownName
        If there is no such column, and no run has such a tag.
    SettingsError
        If no value is a number.
    """
    values = numbers_of(run_column(runs, name))
    if len(values) and values.isna().all():
        raise SettingsError(
            f"{name} has no number, so nothing can be {use}",
            hint="name a tag such as tags.lr, or a column of models, that holds numbers",
        )
    return values


def with_tag_columns(table: pd.DataFrame, runs: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return a table of runs with their ``label`` and a column ``tags.NAME`` for each tag.

    Parameters
    ----------
    table : pandas.DataFrame
        Any table; its runs are known by ``run_id``, else by ``model``. Without either it is
        returned as it is.
    runs : callable
        Returns rows of ``analysis.models``; called where the table is about runs.
    """
    key = next((name for name in ("run_id", "model") if name in table), None)
    if key is None:
        return table
    known = runs().set_index(key).reindex(table[key]).set_axis(table.index)
    result = table.copy(deep=False)
    if known["label"].notna().any() and "label" not in table:
        result["label"] = known["label"]
    tags = known["tags"].map(lambda each: each if isinstance(each, dict) else {})
    for name in tag_names(known.assign(tags=tags)):
        values = tags.map(lambda each, name=name: each.get(name))
        result[PREFIX + name] = _of_one_kind(values.astype("object"))
    return result


def _of_one_kind(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return a tag's values as numbers, as truth values or as text, as a column has one type."""
    kinds = {type(each) for each in values if not missing(each)}
    if len(kinds) < 2:
        return values
    return values.map(float if kinds == {int, float} else str, na_action="ignore")
