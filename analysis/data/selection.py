"""Which runs an analysis is about: globs over their names, and of repeats the newest.

Reads no store: it chooses among rows of ``runs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.data.model_names import Run
from analysis.data.random_weights import names_untrained, trained
from analysis.data.selection_fields import FIELDS, known_sets
from analysis.data.short_names import short_names
from analysis.data.tag_conditions import parsed_condition
from analysis.option_fields import option
from catalog.store.latest_runs import chosen_runs, newest_each, of_one_ridge, without_runs
from survey.errors import SettingsError, UnknownName
from survey.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

#: A field as it may be passed; it is stored as a tuple.
Globs = str | Sequence[str] | None


def _globs(help: str, *flags: str) -> Any:  # noqa: A002
    return option((), f"{help} A glob; may be repeated.", flags=flags, repeated=True, none="all")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs to analyse: those that match a glob of every field that has any.

    Globs ignore case. A field without globs matches all runs. A model, checkpoint or dataset may
    also be given as tables print it, such as ``heldout`` for ``folder:/data/heldout``.

    Parameters
    ----------
    models : str or sequence of str
        Globs over ``source:architecture@checkpoint``, ``architecture@checkpoint``,
        ``source:architecture`` or ``architecture``.
    families, groups, sources, checkpoints, datasets, poolings : str or sequence of str
        Globs over the columns of ``runs`` of these names; ``groups`` over ``family_group``.
    images_per_score, shrinkages, ridges : str or sequence of str
        Globs over the settings that scores depend on, such as ``512`` or ``none``.
    sets : str or sequence of str
        Names of sets of published weights, such as ``paper``: runs of any of their members.
        Without a ridge, runs are of the one that most of the models were measured with: scores
        under two ridges do not compare.
    tags : str or sequence of str
        Tags: ``epoch`` for any value, ``epoch=30``, ``optimiser=adam*`` (text by a glob),
        ``lr!=0.1``, ``epoch>=30``. Equal values of one tag are alternatives; all else must hold.
    untrained : bool
        Networks of random weights (``init:...``) too. Without it, and without a glob over models or
        checkpoints that names ``init:``, they are left out, unless nothing else fits: else they
        would stand for families and trends of trained networks.
    newest : bool
        Of runs that measured the same (``catalog.store.latest_runs.MEASURED``) only one: the newest
        finished one, or the newest where none has finished.
    """

    models: Globs = _globs(
        "Architecture, source:architecture, or either with @checkpoint.", "--model", "-m"
    )
    families: Globs = _globs("Family of models.", "--family")
    groups: Globs = _globs("Group of families, such as residual.", "--group")
    sources: Globs = _globs("Source of models.", "--source")
    checkpoints: Globs = _globs("Name of weights.", "--checkpoint", "-c")
    datasets: Globs = _globs("Dataset.", "--dataset", "-d")
    poolings: Globs = _globs("Pooling over space.", "--pooling")
    images_per_score: Globs = _globs("Number of images a score is made of.", "--images-per-score")
    shrinkages: Globs = _globs("Shrinkage of covariances.", "--shrinkage")
    ridges: Globs = _globs("Ridge on covariances.", "--ridge")
    sets: Globs = _globs("Set of published weights, such as paper.", "--set")
    tags: Globs = option(
        (),
        "Tag: epoch (has it), epoch=30, 'epoch>=30'; may be repeated. Several values of one tag are"
        " alternatives.",
        flags=("--tag",),
        repeated=True,
        none="all",
    )
    untrained: bool = option(
        False, "Networks of random weights (init:...) too; else no question counts them."
    )
    newest: bool = True

    def __post_init__(self) -> None:
        for name in FIELDS:
            value = getattr(self, name)
            globs = (value,) if isinstance(value, str) else tuple(value or ())
            object.__setattr__(self, name, globs)
        for text in self.tags or ():
            parsed_condition(text)
        for name in self.sets or ():
            if name not in known_sets():
                unknown = UnknownName("set", name, known_sets())
                raise SettingsError(unknown.message, hint=unknown.hint)

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """The fields that have globs, with them."""
        return {name: getattr(self, name) for name in FIELDS if getattr(self, name)}

    @property
    def takes_untrained(self) -> bool:
        """Whether random weights were asked for."""
        globs = self.filters
        named = (*globs.get("models", ()), *globs.get("checkpoints", ()))
        return self.untrained or any(map(names_untrained, named))

    def describe(self) -> str:
        """Return the selection in a line, for captions; files and folders by their short names."""
        parts = [
            f"{FIELDS[name].noun} {FIELDS[name].between.join(_short(globs))}"
            for name, globs in self.filters.items()
        ]
        repeats = () if self.newest else ("repeats too",)
        return ", ".join((*(parts or ["all models"]), *repeats))

    def choose(self, fitting: pa.Table) -> pa.Table:
        """Return the selected ones of runs that fit every field, in their order.

        Parameters
        ----------
        fitting : pyarrow.Table
            Rows of ``runs`` with ``run_id``, ``status``, ``finished_at``, ``ridge`` and the columns
            of ``catalog.store.latest_runs.MEASURED``.
        """
        rule = "runs" if self.ridges else of_one_ridge("runs")
        return chosen_runs(self._counting(fitting), newest_each(rule) if self.newest else rule)

    def passed_over(self, fitting: pa.Table) -> str:
        """Return which runs ``choose`` leaves out for their ridge or weights; empty for none."""
        counting, parts = self._counting(fitting), []
        # Most homes have runs of one ridge: none is left out for it.
        several = not self.ridges and len(counting["ridge"].unique().drop_null()) > 1
        kept = chosen_runs(counting, of_one_ridge("runs")) if several else counting
        if others := without_runs(counting, kept):
            ridge, runs_left = others["ridge"][0].as_py(), counted(len(others), "run")
            parts.append(f"{runs_left} of the {ridge} ridge (option ridge)")
        if left_out := self.untrained_left_out(fitting):
            parts.append(f"{counted(left_out, 'run')} of random weights (--untrained)")
        return f"without {' and '.join(parts)}" if parts else ""

    def untrained_left_out(self, fitting: pa.Table) -> int:
        """Return how many finished runs are left out for their random weights, repeats apart."""
        out = without_runs(fitting, self._counting(fitting))
        if not out:
            return 0
        finished = chosen_runs(out, "(FROM runs WHERE status = 'done')")
        return len(chosen_runs(finished, newest_each("runs")) if self.newest else finished)

    def _counting(self, fitting: pa.Table) -> pa.Table:
        """Return the runs of trained networks, where there are any and no others are asked for."""
        kept = trained(fitting["checkpoint"].to_pandas()).to_numpy()
        return fitting.filter(kept) if kept.any() and not self.takes_untrained else fitting

    def fitting(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that fit every field, in their order; repeats and those of any ridge.

        Parameters
        ----------
        runs : iterable of mapping
            Rows of ``runs`` with the columns that globs are compared with, and with ``label`` and
            ``tags`` where they have some.

        Raises
        ------
        SettingsError
            If a glob fits none of the runs, or no run fits every field.
        """
        known = list(runs)
        fitting = [FIELDS[name].chosen(globs, known) for name, globs in self.filters.items()]
        chosen = [run for run in known if all(run["run_id"] in each for each in fitting)]
        if self.filters and not chosen:
            raise SettingsError(
                f"none of the {len(known)} runs is selected by: {self.describe()}",
                hint="each of these fits some run, but no run fits all of them",
            )
        return chosen


def _short(globs: Sequence[str]) -> Iterator[str]:
    """Yield globs, with the short names of checkpoints and datasets in them."""
    parts = [glob.rpartition("@") for glob in globs]
    short = short_names(name for *_, name in parts)
    return (f"{model}{at}{short[name]}" for model, at, name in parts)
