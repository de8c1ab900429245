"""What the globs of a selection are compared with: names of runs, full ones and printed ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from analysis.data.model_names import Run, checkpoint_names, dataset_names, labels
from analysis.data.short_names import path_ends
from analysis.data.tag_conditions import all_hold, parsed_condition
from catalog.store.latest_runs import MEASURED
from catalog.tags import Tags
from survey.errors import SettingsError

if TYPE_CHECKING:
    from catalog.models.sets import NamedSet


def known_sets() -> Mapping[str, NamedSet]:
    """Return the sets of published weights, by name."""
    # Imported where runs are chosen: the tables of models take long, and every help lists options.
    from catalog.models.sets import SETS

    return SETS


def member_of(name: str, run: Run) -> str | None:
    """Return the member of a set of published weights that a run measured; None if it is none.

    Parameters
    ----------
    name : str
        The set, one of ``catalog.models.sets.SETS``.
    run : mapping
        ``source``, ``architecture`` and ``checkpoint``.
    """
    full = f"{run['source']}:{run['architecture']}"
    names = (str(run["checkpoint"]), f"{full}/{run['checkpoint']}", f"{full}.{run['checkpoint']}")
    members = known_sets()[name].members
    return next((each for each in names if each in members), None)


@dataclass(frozen=True, slots=True)
class Field:
    """What the globs of one field of a selection are compared with."""

    #: What its globs match, for messages and captions.
    noun: str
    #: The names of a run that a glob may match; the fullest first, the shortest last.
    names: Callable[[Run], tuple[str, ...]]
    #: What stands between several globs in a caption.
    between: str = " or "
    #: The names that tables and figures print, by run id, where they are shorter.
    printed: Callable[[Iterable[Run]], Mapping[str, str]] | None = None

    def chosen(self, globs: Sequence[str], runs: Sequence[Run]) -> set[str]:
        """Return the ids of the runs that any of the globs fits.

        A glob that fits no name of a run is compared with the names that are printed.

        Raises
        ------
        SettingsError
            If a glob fits no run, or is the printed name of several.
        """
        return set().union(*(self._ids(glob, runs) for glob in globs))

    def _ids(self, glob: str, runs: Sequence[Run]) -> set[str]:
        fitting = {run["run_id"] for run in runs if self.fits(glob, run)}
        fitting = fitting or self._printed_as(glob, runs)
        if not fitting:
            known = {name for run in runs for name in self.names(run) if name}
            message = f"no run fits the {self.noun} {glob!r}"
            raise SettingsError(message, hint=_hint(self.noun, glob, known))
        return fitting

    def fits(self, glob: str, run: Run) -> bool:
        """Return whether a glob matches a name of a run."""
        return _matches(glob, self.names(run))

    def _printed_as(self, glob: str, runs: Sequence[Run]) -> set[str]:
        """Return the ids of the runs of which a table would print this."""
        if self.printed is None:
            return set()
        # Repeats have one name, which a run's id would else be part of.
        each = {_measured(run): run for run in runs}
        names = self.printed(each.values())
        printed = {
            key: (names[run["run_id"]], *path_ends(str(run.get(self.noun))))
            for key, run in each.items()
        }
        fitting = {key for key in printed if _matches(glob, printed[key])}
        # Of fewer runs a table prints only the words in which those differ.
        fitting = fitting or {key for key in printed if _is_part(glob, printed[key])}
        full = sorted({self.names(each[key])[0] for key in fitting})
        if len(full) > 1 and not _WILD.search(glob):
            raise SettingsError(
                f"{len(full)} {self.noun}s go by {glob!r}: {', '.join(full[:6])}"
                + (", ..." if len(full) > 6 else ""),
                hint=f"write one of them in full, or '*{glob}*' for all of them",
            )
        return {run["run_id"] for run in runs if _measured(run) in fitting}


class _TagField(Field):
    __slots__ = ()

    def chosen(self, globs: Sequence[str], runs: Sequence[Run]) -> set[str]:
        fitting = super().chosen(globs, runs)
        return fitting & {run["run_id"] for run in runs if all_hold(globs, _tags(run))}

    def fits(self, glob: str, run: Run) -> bool:
        return parsed_condition(glob).holds(_tags(run))


#: What makes a text a glob.
_WILD = re.compile(r"[*?\[]")


def _matches(glob: str, names: Iterable[str]) -> bool:
    wanted, folded = glob.casefold(), (name.casefold() for name in names)
    return any(name == wanted or fnmatchcase(name, wanted) for name in folded)


def _is_part(words: str, names: Iterable[str]) -> bool:
    wanted = f" {words.casefold()} "
    return any(wanted in f" {name.casefold()} " for name in names)


def _measured(run: Run) -> tuple[Any, ...]:
    return tuple(run[column] for column in MEASURED)


def _tags(run: Run) -> Tags:
    tags: Tags = run.get("tags") or {}
    return tags


def _column(column: str) -> Callable[[Run], tuple[str, ...]]:
    return lambda run: (str(run[column] or ""),)


def _model_names(run: Run) -> tuple[str, ...]:
    short = run["architecture"]
    names = f"{run['source']}:{short}", short
    label = (str(run["label"]),) if run.get("label") else ()
    return *(f"{name}@{run['checkpoint']}" for name in names), *names, *label


#: The fields of a selection that hold globs, by name.
FIELDS: Mapping[str, Field] = {
    "models": Field("model", _model_names, printed=labels),
    "families": Field("family", _column("family")),
    "groups": Field("group", _column("family_group")),
    "sources": Field("source", _column("source")),
    "checkpoints": Field("checkpoint", _column("checkpoint"), printed=checkpoint_names),
    "datasets": Field("dataset", _column("dataset"), printed=dataset_names),
    "poolings": Field("pooling", _column("pooling")),
    "images_per_score": Field("number of images a score", _column("images_per_score")),
    "shrinkages": Field("shrinkage", _column("shrinkage")),
    "ridges": Field("ridge", _column("ridge")),
    "tags": _TagField(
        "tag", lambda run: tuple(f"{name}={each}" for name, each in _tags(run).items()), ", "
    ),
    "sets": Field("set", lambda run: tuple(name for name in known_sets() if member_of(name, run))),
}


def _hint(noun: str, glob: str, known: Iterable[str]) -> str | None:
    if noun == "set":
        return "survey checkpoints lists its members; none of them was measured"
    if noun == "tag" and not known:
        return "no run has a tag: survey tag gives them some, as survey run can"
    if noun == "model" and glob in known_sets():
        return f"{glob} is a set of models: the option set takes it, or Selection(sets={glob!r})"
    written = {name.casefold(): name for name in known}
    if not written:
        return "nothing is measured yet"
    stem = re.split(r"[*?\[]", glob)[0].casefold()
    close = get_close_matches(stem, written, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(written[name] for name in close)}?"
    shown = [written[name] for name in sorted(written)]
    return f"measured: {', '.join(shown[:12])}{', ...' if len(shown) > 12 else ''}"
