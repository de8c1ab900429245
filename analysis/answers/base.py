"""An answer: one question about what was measured, declared once.

From a declaration are made a verb of the command line, a part of the report's pages, and what a
service shows. Importing a declaration loads no pandas: functions are named, as ``module:function``
of ``analysis``, and imported when a question is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Self

from analysis.answers.columns import TableColumn
from analysis.answers.material import Material
from analysis.choices import NORMALISATION, Normalisation
from analysis.option_fields import option, option_fields

if TYPE_CHECKING:
    import pandas as pd

    from analysis.similarity.distances import DistanceMatrix

#: What tells a signature's rows apart, and its curve: what most answers are computed from.
CURVE = (
    *("run_id", "architecture", "checkpoint", "dataset", "family", "site", "role", "repeat"),
    "affinity",
)

#: The metrics beside it that the paper prints numbers of.
METRICS = ("cka", "norm", "sparsity_change", "entropy_change", "r2")


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of an answer, with the rows it shows."""

    #: A figure of ``analysis.figures``.
    chart: Any
    rows: pd.DataFrame
    #: Its files' stem in a report.
    name: str
    #: The runs it is about; all by default.
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """A table of an answer on a page."""

    name: str
    caption: str
    rows: pd.DataFrame
    columns: Sequence[str | TableColumn]


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer; the first paragraph of a subclass's docstring says to which question.

    A subclass declares the class variables; its fields, made by ``analysis.option_fields.option``,
    are its options. It overrides what is not made from these alone.

    Parameters
    ----------
    material : Material
        The frames it is made from.
    """

    #: Unique: its address in a service, and the stem of its files in a report.
    name: ClassVar[str]
    #: What asks for it on the command line: a verb, with the kind or flag that chooses this answer.
    command: ClassVar[str] = ""
    #: The page of the report that shows it, and the page's title where this answer comes first.
    page: ClassVar[str] = ""
    title: ClassVar[str] = ""
    #: The caption of its table on the page; empty where the page has none.
    caption: ClassVar[str] = ""
    #: How it is computed, for a page.
    method: ClassVar[str] = ""
    #: The columns of its table, in order, of ``analysis.answers.columns`` where given by name; JSON
    #: has all columns of its rows.
    columns: ClassVar[Sequence[str | TableColumn]]
    #: The function that computes it from the signatures and the options.
    computed_by: ClassVar[str]
    #: The function that returns from what was computed what follows, as a sentence.
    found_by: ClassVar[str]
    #: The figure: ``NAME_chart`` and ``NAME_rows`` of ``analysis.figures``, and how much of many
    #: models it shows.
    figure: ClassVar[str] = ""
    most: ClassVar[int | None] = None
    #: Whether the figure shows all sites, not only what was computed from them.
    all_sites: ClassVar[bool] = False
    #: The stem of its files in a report; the name of the answer by default.
    file: ClassVar[str] = ""
    #: The column that has a value where the data allow an answer; any row will do by default.
    needed: ClassVar[str] = ""
    #: What it is computed from: a view of the store, and columns of it.
    view: ClassVar[str] = "signatures"
    source: ClassVar[Sequence[str]] = CURVE
    #: Filters of runs that mean nothing to it.
    without: ClassVar[Sequence[str]] = ()

    material: Material

    @classmethod
    def of(cls, material: Material) -> Self:
        """Return the answer with its default options, made once."""
        answer: Self = material.answers.setdefault(cls, cls(material))
        return answer

    @cached_property
    def statistics(self) -> Any:
        """What was computed; everything else of the answer is made from it."""
        options = {each.name: getattr(self, each.name) for each in option_fields(self)}
        return resolve_name(self.computed_by)(self.material.signatures, **options)

    @property
    def rows(self) -> pd.DataFrame:
        """The result as a table, with all of its columns."""
        table: pd.DataFrame = self.statistics
        return table

    def finding(self) -> str:
        """Return what follows, as a sentence; or why there is no answer."""
        sentence: str = resolve_name(self.found_by)(self.statistics)
        return sentence

    def details(self) -> Sequence[str]:
        """Return what else is to be known of the result, in sentences."""
        return ()

    @property
    def known(self) -> bool:
        """Whether the data allow an answer."""
        return bool(self.rows[self.needed].notna().any() if self.needed else len(self.rows))

    @property
    def drawn(self) -> Sequence[Any]:
        """What its figure is made from."""
        return (self.material.signatures if self.all_sites else self.statistics,)

    def drawings(self) -> Iterator[Drawing]:
        """Yield its figures."""
        if self.figure:
            limit = {} if self.most is None else {"most": self.most}
            chart, rows = (
                resolve_name(f"analysis.figures:{self.figure}_{kind}")(*self.drawn, **limit)
                for kind in ("chart", "rows")
            )
            yield Drawing(chart, rows, self.file or self.name)

    def tables(self) -> Iterator[AnswerTable]:
        """Yield the tables of its page."""
        if self.caption:
            yield AnswerTable(self.name, self.caption, self.rows, self.columns)

    @property
    def alarm(self) -> bool:
        """Whether the exit code is to tell a script about it."""
        return False


@dataclass(frozen=True, eq=False)
class DistanceAnswer(Answer):
    """An answer made from distances between signatures."""

    normalisation: Normalisation = option(
        NORMALISATION,
        "What is done about unequal lengths: signatures as they are, a distance per step, or curves"
        " over relative depth.",
    )
    band: int | None = option(None, "Radius of a Sakoe-Chiba band.", minimum=0, none="no band")

    @property
    def matrix(self) -> DistanceMatrix:
        """The distances."""
        return self.material.matrix(self.normalisation, self.band)

    @cached_property
    def statistics(self) -> Any:
        """What was computed from the distances and the other options."""
        names = [each.name for each in option_fields(self)]
        options = {name: getattr(self, name) for name in names if name not in _OF_DISTANCES}
        return resolve_name(self.computed_by)(self.matrix, **options)

    def details(self) -> Sequence[str]:
        """Return which distances it is made from, and what they leave out."""
        from analysis.similarity.distances import distance_words

        return [f"{distance_words(self.matrix)}.", *self.left_out()]

    def left_out(self) -> list[str]:
        """Return which models and sites the distances leave out."""
        without = self.matrix.without
        gaps = int((self.matrix.runs["left_out"] > 0).sum())
        lines = [f"Left out, without any score: {', '.join(without)}."] if without else []
        return lines + ([f"Models with sites left out, without a score: {gaps}."] if gaps else [])


_OF_DISTANCES = ("normalisation", "band")


def untrained_option(counts: str) -> Any:
    """Return the option whether random weights take part in something."""
    return option(False, f"Random weights (init:...) {counts} too.", flags=("--untrained",))
