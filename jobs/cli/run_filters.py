"""What every verb that explains is asked alike: which runs, and where the answer goes.

Owns the options of selection, output and figure, and how an answer leaves: the table to standard
output or a file, what it comes to and where it comes from to standard error.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from jobs.choices import Format, NormalisationChoice, RoleChoice
from jobs.cli.app import DEFAULT_HOME, FormatOption, HomeOption, JsonOption, OutputOption
from jobs.cli.app import verb as command
from survey.errors import SettingsError
from survey.text import counted

ModelOption = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Architectures, source:architecture or ...@checkpoint."),
]
FamilyOption = Annotated[list[str] | None, typer.Option("--family", help="Families.")]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", help="Groups of families, such as residual.")
]
SourceOption = Annotated[list[str] | None, typer.Option("--source", help="Sources of models.")]
CheckpointOption = Annotated[
    list[str] | None, typer.Option("--checkpoint", "-c", help="Names of weights.")
]
DatasetOption = Annotated[list[str] | None, typer.Option("--dataset", "-d", help="Datasets.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Sets of published weights, such as paper.")
]
PoolingOption = Annotated[list[str] | None, typer.Option("--pooling", help="Poolings.")]
ImagesPerScoreOption = Annotated[
    list[str] | None, typer.Option("--images-per-score", help="Numbers of images a score.")
]
ShrinkageOption = Annotated[list[str] | None, typer.Option("--shrinkage", help="Shrinkages.")]
RidgeOption = Annotated[list[str] | None, typer.Option("--ridge", help="Ridges.")]
RoleOption = Annotated[RoleChoice, typer.Option("--role", help="Which sites.")]
AllRunsOption = Annotated[
    bool, typer.Option("--all-runs", help="Older runs of the same models too, not the newest only.")
]
FigureOption = Annotated[
    Path | None,
    typer.Option("--figure", help="Draw into FILE.svg, .png or .html.", show_default=False),
]

#: Of verbs about distances.
NormalisationOption = Annotated[
    NormalisationChoice,
    typer.Option("--normalisation", help="Signatures as they are, by length, or relative depth."),
]
BandOption = Annotated[
    int | None, typer.Option("--band", help="Radius of a Sakoe-Chiba band.  [default: none]", min=0)
]
#: Of verbs that average over models, or let them vote.
UntrainedOption = Annotated[
    bool, typer.Option("--untrained", help="Random weights (init:...) count too.")
]
#: Of verbs about numbers that the paper prints too.
ComparePaperOption = Annotated[
    bool, typer.Option("--compare-paper", help="Ours beside the paper's printed numbers instead.")
]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which runs an answer is about, and where it goes."""

    home: Path
    format: Format
    output: Path | None = None
    figure: Path | None = None
    role: RoleChoice = "all"
    newest: bool = True
    #: Globs by the fields of ``analysis.data.selection.Selection``.
    filters: Mapping[str, Sequence[str] | None] = field(default_factory=dict)

    def signatures(self) -> Any:
        """Return the signatures that are meant, as a data frame.

        Raises
        ------
        SettingsError
            If there are none.
        """
        from analysis.data.frames import signatures
        from analysis.data.provenance import carried

        found = signatures(self.home, self.selection(), role=self.role)
        if not len(found):
            raise self._nothing_found()
        # Nothing is taken out of the frame from here on, so every result is made from all of it.
        return carried(found, found)

    def models(self) -> Any:
        """Return the finished runs that are meant, as a data frame."""
        from analysis.data.frames import models

        found = models(self.home, self.selection())
        return found[found["status"] == "done"].reset_index(drop=True)

    def layers(self, columns: Sequence[str]) -> Any:
        """Return these batch scores of the runs that are meant, as a data frame."""
        from analysis.data.frames import layers

        return layers(self.home, self.selection(), columns=columns)

    def answer(
        self,
        table: Any,
        headings: Mapping[str, str | None] | None = None,
        summary: Sequence[str] = (),
        draw: Callable[[], Any] | None = None,
    ) -> None:
        """Write a result, its figure, what it comes to and what it was made from.

        Parameters
        ----------
        table : pandas.DataFrame
            The result.
        headings : mapping of str to str or None, optional
            The columns that aligned text shows, and under which heading if not their name.
        summary : sequence of str
            What it comes to, in lines.
        draw : callable, optional
            Returns the figure.
        """
        import pyarrow as pa

        from analysis.data.comparability import mixed
        from analysis.data.provenance import provenance_of
        from jobs.cli.output import emit, headed

        if self.figure is not None and draw is not None:
            from analysis.figures import save

            save(draw(), self.figure)
        rows = pa.Table.from_pandas(table, preserve_index=False)
        shown = headed(rows, dict(headings)) if headings and self.format == "table" else rows
        # A heading over nothing says less than the summary.
        if rows.num_rows or self.format != "table" or self.output is not None:
            emit(shown, self.format, self.output)
        written = [f"{counted(rows.num_rows, 'row')} written to {self.output}"]
        drawn = [f"figure written to {self.figure}" if draw else "there is nothing to draw of this"]
        made_from = provenance_of(table)
        warning = mixed(made_from.conditions)
        for line in (
            *summary,
            *(written if self.output else ()),
            *(drawn if self.figure else ()),
            *([f"note: {warning}"] if warning else ()),
            made_from.caption(),
        ):
            typer.echo(line, err=True)

    def selection(self) -> Any:
        """Return the runs that are meant, as a ``Selection``."""
        from analysis.data.selection import Selection

        globs = {name: tuple(given) for name, given in self.filters.items() if given}
        return Selection(**globs, newest=self.newest)

    def _nothing_found(self) -> SettingsError:
        from analysis.data.frames import models

        statuses = list(models(self.home, self.selection())["status"])
        hint = "survey run measures; survey demo measures eight small networks in a minute"
        if not statuses:
            return SettingsError(f"nothing was measured in {self.home} yet", hint=hint)
        if "done" not in statuses:
            words = f"none of {len(statuses)} selected runs in {self.home} has finished"
            return SettingsError(words, hint="survey status says how far they are, and what failed")
        return SettingsError(f"no selected run has {self.role} sites", hint="leave out --role")


def analysing(verb: Callable[..., None], without: Sequence[str] = ()) -> Callable[..., None]:
    """Give a verb the options that all of them share, gathered in its argument ``asked``.

    Parameters
    ----------
    verb : callable
        A verb whose first parameter is ``asked``, the others its own arguments and options.
    without : sequence of str
        Shared options that mean nothing to it.

    Returns
    -------
    callable
        What typer is to register: the shared options behind the verb's own.
    """
    hints = get_type_hints(verb, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(verb).parameters.items()
        if name != "asked"
    ]
    known = inspect.signature(_shared, eval_str=True).parameters
    shared = {name: each for name, each in known.items() if name not in without}

    @functools.wraps(verb)
    @functools.partial(command, interrupted="nothing was written; what was measured is untouched")
    def run(**given: Any) -> None:
        verb(_shared(**{name: given.pop(name) for name in shared}), **given)

    parameters = [*own, *shared.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _shared(
    model: ModelOption = None,
    family: FamilyOption = None,
    group: GroupOption = None,
    source: SourceOption = None,
    checkpoint: CheckpointOption = None,
    dataset: DatasetOption = None,
    set_: SetOption = None,
    pooling: PoolingOption = None,
    images_per_score: ImagesPerScoreOption = None,
    shrinkage: ShrinkageOption = None,
    ridge: RidgeOption = None,
    role: RoleOption = "all",
    all_runs: AllRunsOption = False,
    home: HomeOption = DEFAULT_HOME,
    format: FormatOption = "table",  # noqa: A002
    json: JsonOption = False,  # noqa: ARG001 - read by --format
    output: OutputOption = None,
    figure: FigureOption = None,
) -> Asked:
    if figure is not None:
        from analysis.figures import require_drawable

        require_drawable(figure)
    if output is not None and not output.parent.is_dir():
        raise SettingsError(f"{output} cannot be written: there is no directory {output.parent}")
    filters = {
        "models": model,
        "families": family,
        "groups": group,
        "sources": source,
        "checkpoints": checkpoint,
        "datasets": dataset,
        "sets": set_,
        "poolings": pooling,
        "images_per_score": images_per_score,
        "shrinkages": shrinkage,
        "ridges": ridge,
    }
    return Asked(
        home=home,
        format=format,
        output=output,
        figure=figure,
        role=role,
        newest=not all_runs,
        filters=filters,
    )
