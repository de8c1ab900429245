"""The pages about one question each, in the order they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from analysis.figures.text import sentence
from analysis.report import comparisons, findings, zoo
from analysis.report.data import Material
from analysis.report.elements import Section
from survey.errors import SettingsError, UnknownName

Maker = Callable[[Material], Section]

#: Every page about a question, in the order they are read: its file's stem, its title, its maker.
_MAKERS: tuple[tuple[str, str, Maker], ...] = (
    ("clusters", "Clusters", zoo.clusters),
    ("correlations", "Correlations", findings.correlations),
    ("regressions", "Regressions", findings.regressions),
    ("timeline", "Timeline", zoo.timeline),
    ("distributions", "Distributions", zoo.distributions),
    ("depth", "Depth", zoo.depth),
    ("residual", "Residual or plain", comparisons.residual),
    ("datasets", "Datasets", comparisons.datasets),
    ("checkpoints", "Checkpoints", comparisons.checkpoints),
    ("training", "Training", comparisons.training),
    ("paper", "The paper", comparisons.paper),
)


def sections(material: Material) -> list[Section]:
    """Return a section for every question; those the data do not allow say why.

    Parameters
    ----------
    material : Material
        The report's frames.
    """
    return [_made(name, title, maker, material) for name, title, maker in _MAKERS]


def _made(name: str, title: str, maker: Maker, material: Material) -> Section:
    if not material.scored:
        return Section("no run of the selection has a score", name, title, present=False)
    try:
        made = maker(material)
    except (SettingsError, UnknownName) as error:
        return Section(error.message, name, title, present=False)
    return replace(made, name=name, title=title, finding=sentence(made.finding))
