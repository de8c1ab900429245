"""``survey activations``: the papers' studies of activation functions, as tables and figures."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from analysis.option_fields import option
from analysis.studies.catalogue import STUDIES
from analysis.studies.catalogue import study as find_study
from jobs.cli.output import FigureOptions, TableFileOptions
from jobs.cli.terminal import say
from jobs.cli.verb import verb


def _option(text: str) -> Any:
    return option(None, text, none="that of the study")


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """What a study computes, where it is not what the paper's figure shows."""

    activation: list[str] | None = _option("Function in torch.nn.functional; may be repeated.")
    mean: list[float] | None = _option("Mean of a sample; may be repeated.")
    deviation: list[float] | None = _option("Standard deviation of a sample; may be repeated.")
    degree: list[int] | None = _option("Degree of a power; may be repeated.")
    scale: list[float] | None = _option("Scale of a perceptron's weights; may be repeated.")
    n: int | None = _option("Points in a sample.")
    d: list[int] | None = _option(
        "Dimension of a sample, or channels of a tensor; may be repeated."
    )
    seed: list[int] | None = _option("Random seed; may be repeated.")
    model: list[str] | None = _option("Bundled network; may be repeated.")
    dataset: str | None = _option("Dataset, as for survey run.")
    images_per_score: list[int] | None = _option("Images in one score; may be repeated.")

    def given(self) -> dict[str, list[Any]]:
        """Return the values of the options that were given, by their names."""
        values = {each.name.replace("_", "-"): getattr(self, each.name) for each in fields(self)}
        return {
            name: value if isinstance(value, list) else [value]
            for name, value in values.items()
            if value is not None
        }


@contextmanager
def _progress_shown() -> Iterator[None]:
    """Show the progress of a slow study on standard error."""
    log, shown = logging.getLogger("analysis.studies"), logging.StreamHandler()
    log.setLevel(logging.INFO)
    log.addHandler(shown)
    try:
        yield
    finally:
        log.removeHandler(shown)


@verb
def activations(
    *,
    study: str = option(..., "Name of a study listed above.", metavar="STUDY", positional=True),
    options: StudyOptions,
    figure: FigureOptions,
    table: TableFileOptions,
) -> None:
    """Run one study of activation functions and write its table."""
    import pyarrow as pa

    chosen = find_study(study)
    figure.check()
    with _progress_shown():
        result = chosen.run(**options.given())
    table.write(pa.Table.from_pandas(result, preserve_index=False).replace_schema_metadata(None))
    if figure.file is not None:
        say(figure.save(chosen.draw(result), figure.file))


activations.__doc__ = "\n\n".join(
    [activations.__doc__ or "", "The studies:", *(f"{s.name}: {s.sentence}" for s in STUDIES)]
)
