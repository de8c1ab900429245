"""An answer: one question about what was measured, declared once.

The command line makes a verb of a declaration, the report a part of a page. Importing a declaration
loads no pandas: functions are named, as ``module:function`` of ``analysis``, and imported when a
question is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Self

from analysis.answers.columns import Table, TableColumn
from analysis.answers.material import Material
from analysis.choices import NORMALISATION, Normalisation
from analysis.figure_style import colour_option
from analysis.option_fields import option, option_fields

if TYPE_CHECKING:
    import pandas as pd

    from analysis.data.provenance import Provenance
    from analysis.similarity.distances import DistanceMatrix

#: The columns that most answers are computed from.
CURVE = (
    *("run_id", "model", "source", "architecture", "checkpoint", "family", "dataset"),
    *("dataset_name", "pooling", "site", "role", "repeat", "affinity"),
)

#: What figures over depth show beside.
DEPTHS = ("graph_depth", "relative_depth")

#: What an answer states that random weights have no part in, whether they are asked for or not.
TRAINED_ALONE = "Random weights are left out."


@dataclass(frozen=True, slots=True)
class Drawing:
    """What makes a figure of an answer, and the rows that it shows."""

    #: Returns a figure of ``analysis.figures``.
    chart: Callable[[], Any]
    rows: Callable[[], pd.DataFrame]
    #: The stem of its files in a report.
    name: str
    #: The runs it shows; all by default.
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer; the first paragraph of a subclass's docstring names the question.

    A subclass declares the class variables; its fields, made by ``analysis.option_fields.option``,
    are its options. It overrides what does not follow from these alone.

    Parameters
    ----------
    material : Material
        The frames it is computed from.
    """

    #: Unique; the stem of its files in a report.
    name: ClassVar[str]
    #: Its verb of the command line, with the kind or flag that chooses it among others.
    command: ClassVar[str] = ""
    #: The page of the report that shows it, and the page's title where this answer comes first.
    page: ClassVar[str] = ""
    title: ClassVar[str] = ""
    #: The caption of its table on the page; empty where the page has none.
    caption: ClassVar[str] = ""
    #: How it is computed, for a page.
    method: ClassVar[str] = ""
    #: What its p-values take for independent, where it has any.
    unit: ClassVar[str] = ""
    #: The columns of its table, in order, of ``analysis.answers.columns`` where given by name; JSON
    #: has all columns of its rows.
    columns: ClassVar[Sequence[str | TableColumn]]
    #: The function that computes it from ``inputs`` and those options that are its parameters.
    computed_by: ClassVar[str]
    #: The function that returns the finding, a sentence, from what was computed.
    found_by: ClassVar[str]
    #: The figure: ``NAME_chart`` and ``NAME_rows`` of ``analysis.figures``, and how many models it
    #: shows at most.
    figure: ClassVar[str] = ""
    most: ClassVar[int | None] = None
    #: Whether the figure shows the scores of all sites, not what was computed from them.
    all_sites: ClassVar[bool] = False
    #: The stem of its figure's files in a report; the name of the answer by default.
    file: ClassVar[str] = ""
    #: The column that has a value where the data allow an answer; by default one row is enough.
    needed: ClassVar[str] = ""
    #: The view of the store that the report's SQL selects from, and the columns that it is computed
    #: from: those of signatures are read, and those that the view has are selected.
    view: ClassVar[str] = "signatures"
    source: ClassVar[Sequence[str]] = CURVE
    #: Whether it is computed from scores that no other answer counts, too.
    every_score: ClassVar[bool] = False
    #: Settings of whose values it never brings several together, whatever runs it is about.
    apart: ClassVar[Sequence[str]] = ()
    #: Whether it is about random weights too, which no other answer counts unasked.
    untrained: ClassVar[bool] = False
    #: Options shared by the verbs that do not apply to it.
    without: ClassVar[Sequence[str]] = ()

    material: Material

    @classmethod
    def of(cls, material: Material) -> Self:
        """Return the answer with its default options, made once."""
        answer: Self = material.answers.setdefault(cls, cls(material))
        return answer

    @classmethod
    def question(cls) -> str:
        """Return what it asks: the first line of its docstring."""
        return (cls.__doc__ or "").partition("\n")[0]

    @property
    def inputs(self) -> Sequence[Any]:
        """The positional arguments of ``computed_by``."""
        return (self.signatures,)

    @property
    def signatures(self) -> pd.DataFrame:
        """The scores that it is computed from."""
        return self._about.sites(self.read)

    @property
    def made_from(self) -> Provenance:
        """The provenance of these."""
        return self._about.made_from

    @property
    def _about(self) -> Material:
        return self.material.with_untrained if self.untrained else self.material

    @property
    def read(self) -> Sequence[str]:
        """The columns of signatures that it is computed from with its options."""
        return self.source

    @property
    def options(self) -> dict[str, Any]:
        """The options that are parameters of ``computed_by``; the others choose what is shown."""
        parameters = signature(resolve_name(self.computed_by)).parameters
        names = [each.name for each in option_fields(self) if each.name in parameters]
        given = {name: getattr(self, name) for name in names}
        if "untrained" in parameters:
            given["untrained"] = self.material.selection.takes_untrained
        return given

    @cached_property
    def statistics(self) -> Any:
        """The result of ``computed_by``, of which rows, finding and figures are made."""
        return resolve_name(self.computed_by)(*self.inputs, **self.options)

    @property
    def rows(self) -> pd.DataFrame:
        """The result as a table, with all of its columns."""
        table: pd.DataFrame = self.statistics
        return table

    def finding(self) -> str:
        """Return the result in a sentence, or the reason for having none."""
        sentence: str = resolve_name(self.found_by)(self.statistics)
        return sentence

    def details(self) -> Sequence[str]:
        """Return how the result was computed and what it leaves out, in sentences."""
        return ()

    def replication(self) -> Sequence[str]:
        """Return the unit of replication of its p-values, as a sentence, where it has any."""
        return [f"Unit of replication: {self.unit}."] if self.unit else []

    @property
    def known(self) -> bool:
        """Whether the data allow an answer."""
        return bool(self.rows[self.needed].notna().any() if self.needed else len(self.rows))

    @property
    def drawn(self) -> Sequence[Any]:
        """The arguments of its figure's functions."""
        return (self.signatures if self.all_sites else self.statistics,)

    @property
    def drawn_with(self) -> dict[str, Any]:
        """Further arguments of the chart alone."""
        return {}

    def drawings(self) -> Iterator[Drawing]:
        """Yield its figures."""
        if self.figure:
            limit = {} if self.most is None else {"most": self.most}
            drawn = self.drawn
            chart, rows = (
                partial(resolve_name(f"analysis.figures:{self.figure}_{kind}"), *drawn, **limit)
                for kind in ("chart", "rows")
            )
            yield Drawing(partial(chart, **self.drawn_with), rows, self.file or self.name)

    def tables(self) -> Iterator[Table]:
        """Yield the tables of its page."""
        if self.caption:
            yield Table(self.name, self.caption, self.rows, self.columns)

    @property
    def alarm(self) -> bool:
        """Whether the command line ends with an exit code above 0."""
        return False


@dataclass(frozen=True, eq=False)
class ColouredAnswer(Answer):
    """An answer whose figure colours models by their family, or by what the user names."""

    color_by: str | None = colour_option()

    @property
    def drawn_with(self) -> dict[str, Any]:
        """The colours of the figure."""
        return {"colours": self.material.colours(self.color_by)}


@dataclass(frozen=True, eq=False)
class DistanceAnswer(Answer):
    """An answer computed from distances between signatures."""

    normalisation: Normalisation = option(
        NORMALISATION,
        "How signatures of unequal lengths compare: as they are, by the distance per step, or as"
        " curves over relative depth.",
    )
    band: int | None = option(
        None, "Radius of a Sakoe-Chiba band.", minimum=0, maximum=10**6, none="no band"
    )

    @property
    def read(self) -> Sequence[str]:
        """The columns of signatures that distances are computed from."""
        from analysis.similarity.distances import READ

        return READ

    @property
    def matrix(self) -> DistanceMatrix:
        """The distances."""
        return self.material.matrix(self.normalisation, self.band)

    @property
    def inputs(self) -> Sequence[Any]:
        """The distances."""
        return (self.matrix,)

    def details(self) -> Sequence[str]:
        """Return which distances it is computed from, and what they leave out."""
        from analysis.similarity.distances import distance_words

        return [f"{distance_words(self.matrix)}.", *self.left_out()]

    def left_out(self) -> list[str]:
        """Return which models and sites the distances leave out."""
        without = self.matrix.without
        gaps = int((self.matrix.runs["left_out"] > 0).sum())
        lines = [f"Left out, without any score: {', '.join(without)}."] if without else []
        return lines + ([f"Models with sites left out, without a score: {gaps}."] if gaps else [])
